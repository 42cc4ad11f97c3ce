"""Read a job's journal, its verdicts, and what their evidence stands for, from the streams. Bounded; reads only."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from fault_contracts.agent import WorkerExited
from fault_contracts.envelope import Envelope, EnvelopeError
from fault_contracts.faults import FaultClassified
from fault_contracts.findings import FindingsReported
from fault_contracts.health import ConditionRaised
from fault_contracts.ids import derived_id
from fault_contracts.payload import Payload, Reason
from fault_contracts.rank_faults import RanksFaulted
from fault_contracts.recovery import JournalEntry, NodeFaulted, NodeLost
from fault_contracts.registry import Stream, spec_of
from fault_contracts.subjects import Kind, pattern
from phalanx_cli.journal.record import Entry, IncidentTale, Record, Unread, read_record
from phalanx_cli.journal.sentences import sentence
from service_kit.delivery import decode
from service_kit.jetstream.connection import Connection
from service_kit.jetstream.direct_get import Stored, every_stored

ENTRIES_MAX = 50_000
"""The newest; a job with 5,000 incidents. Some 100 MB while they are held."""
VERDICTS_MAX = 10_000
EVIDENCE_NODES_MAX = 16
"""Nodes whose reports are looked through for evidence."""
EVIDENCE_MESSAGES_MAX = 2_000
"""Of one kind and one node."""
_ABOUT_NODES: tuple[type[Payload], ...] = (WorkerExited, RanksFaulted, ConditionRaised, FindingsReported)


async def read_journal(connection: Connection, cluster: str, job_id: str) -> Record:
    """All entries of a job and the judge's verdicts on it.

    Raises:
        BusUnavailable: no answer.
    """
    entries: deque[Entry] = deque(maxlen=ENTRIES_MAX)
    unread: list[Unread] = []
    subject = pattern(Kind.EVT, "recovery", "*", None, cluster, job_id)
    async for stored in every_stored(connection, Stream.JOURNAL, subject):
        read = _open(stored)
        if isinstance(read, Unread):
            unread.append(read)
        elif isinstance(read.data, JournalEntry):  # the care of a node that is called as the job is
            entries.append(_entry(read, stored))
    faults: deque[FaultClassified] = deque(maxlen=VERDICTS_MAX)
    async for stored in every_stored(connection, Stream.FAULTS, spec_of(FaultClassified).pattern(cluster, job_id)):
        read = _open(stored)
        if not isinstance(read, Unread) and isinstance(read.data, FaultClassified):
            faults.append(read.data)
    return read_record(list(entries), faults, unread)


async def read_evidence(connection: Connection, cluster: str, tales: Iterable[IncidentTale]) -> dict[str, str]:
    """What the evidence of these incidents stands for, a sentence each; an id that is not there any more is left out.

    Raises:
        BusUnavailable: no answer.
    """
    told = list(tales)
    wanted = {id_ for tale in told for reason in _reasons(tale) for id_ in reason.evidence_ids}
    if not wanted:
        return {}
    meaning: dict[str, str] = {}
    for tale in told:
        meaning |= _known_from(tale)
    for node_id in sorted(_nodes(told))[:EVIDENCE_NODES_MAX]:
        for model in _ABOUT_NODES:
            if wanted <= meaning.keys():
                break
            await _look_through(connection, cluster, node_id, model, meaning)
    return {id_: meaning[id_] for id_ in sorted(wanted) if id_ in meaning}


async def _look_through(
    connection: Connection, cluster: str, node_id: str, model: type[Payload], meaning: dict[str, str]
) -> None:
    spec = spec_of(model)
    if spec.stream is None:
        return
    seen = 0
    async for stored in every_stored(connection, spec.stream, spec.pattern(cluster, node_id)):
        seen += 1
        if seen > EVIDENCE_MESSAGES_MAX:
            return
        read = _open(stored)
        if not isinstance(read, Unread):
            meaning.update(_meanings(read))


def _meanings(envelope: Envelope[Payload]) -> dict[str, str]:
    """The ids by which a message may be called, with what it says."""
    event = envelope.data
    match event:
        case FindingsReported():
            return {
                f"{event.node_id}/{row.rank}/{row.stream}/{row.ordinal}/{row.signature_id}"[:256]: (
                    f"{row.stream} of rank {row.rank} on {event.node_id}: {row.excerpt or row.kind}"
                )
                for row in event.findings
            }
        case ConditionRaised():
            text = f"{event.node_id}: {event.check}: {event.reason}"
            return {event.condition_id: text, envelope.id: text}
        case _:
            told = sentence(event, ranks_per_node=1)
            return {} if told is None else {envelope.id: told[1]}


def _known_from(tale: IncidentTale) -> dict[str, str]:
    """What the journal itself can say of its evidence."""
    known = {verdict.fault_id: f"verdict {verdict.attribution}, {verdict.cause}" for verdict in tale.verdicts}
    known[tale.incident_id] = "this incident"
    for lost in tale.all(NodeLost):
        name = derived_id(lost.job_id, "node_lost", lost.topology_version, lost.node_id)
        known[name] = f"{lost.node_id} is lost: {lost.reason.sentence}"
    for faulted in tale.all(NodeFaulted):
        known[faulted.condition.condition_id] = f"{faulted.node_id}: {faulted.condition.reason}"
    return known


def _reasons(tale: IncidentTale) -> Iterable[Reason]:
    for verdict in tale.verdicts:
        yield from verdict.reasons
    for entry in tale.entries:
        for name in ("trigger", "reason"):
            reason = getattr(entry.payload, name, None)
            if isinstance(reason, Reason):
                yield reason


def _nodes(tales: Iterable[IncidentTale]) -> set[str]:
    nodes: set[str] = set()
    for tale in tales:
        nodes |= {str(node) for entry in tale.entries if (node := getattr(entry.payload, "node_id", ""))}
        nodes |= {verdict.culprit.node_id for verdict in tale.verdicts if verdict.culprit.node_id}
    return nodes


def _open(stored: Stored) -> Envelope[Payload] | Unread:
    try:
        return decode(stored.body, stored.subject)
    except EnvelopeError as error:
        return Unread(sequence=stored.sequence, subject=stored.subject, problem=str(error))


def _entry(envelope: Envelope[Payload], stored: Stored) -> Entry:
    return Entry(payload=envelope.data, message_id=envelope.id, at=envelope.time, sequence=stored.sequence)
