"""The journal as a story for a person: a paragraph for each incident, holes where the record has holes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from fault_contracts.accounts import JudgedFault
from fault_contracts.faults import FaultClassified
from fault_contracts.payload import Payload, Reason
from fault_contracts.recovery import (
    IncidentClosed,
    JobEnded,
    RecoveryPlanned,
)
from phalanx_cli.journal.account_lines import account_lines, cost_words, duration
from phalanx_cli.journal.moments import moment_of
from phalanx_cli.journal.phase_bar import phase_bar, phase_words
from phalanx_cli.journal.record import IncidentTale, Record, RunTale, stands_now
from phalanx_cli.journal.sentences import sentence

REASONS_SHOWN = 6
"""Reasons of one verdict or plan; --format json has all."""
EVIDENCE_SHOWN = 4


def story_lines(
    record: Record, *, incidents_max: int, ranks_per_node: int, evidence: Mapping[str, str]
) -> Iterator[str]:
    """The runs, oldest first, with their newest incidents.

    `evidence`: what evidence ids stand for, as far as the streams still have it.
    """
    if not record.runs and not record.unread:
        yield "journal      nothing is recorded of this job"
        return
    several = len(record.runs) > 1
    for number, run in enumerate(record.runs, start=1):
        yield ""
        yield from _run_lines(
            run,
            title=f"run {number} of {len(record.runs)}" if several else "journal",
            incidents_max=incidents_max,
            ranks_per_node=ranks_per_node,
            evidence=evidence,
        )
    for unread in record.unread[:REASONS_SHOWN]:
        yield f"hole         message {unread.sequence} of the journal cannot be read: {unread.problem}"
    if len(record.unread) > REASONS_SHOWN:
        yield f"hole         ... and {len(record.unread) - REASONS_SHOWN} more"


def _run_lines(
    run: RunTale, *, title: str, incidents_max: int, ranks_per_node: int, evidence: Mapping[str, str]
) -> Iterator[str]:
    count = len(run.incidents)
    begun = "its beginning is not in the record" if run.begun_at is None else f"since {run.begun_at:%Y-%m-%d %H:%M:%S}"
    yield f"{title:<12} {'no incident' if count == 0 else f'{count} incidents' if count > 1 else '1 incident'}, {begun}"
    for hole in run.holes:
        yield f"hole         {hole}"
    for entry in run.others:
        if not isinstance(entry.payload, JobEnded) and (told := _told(entry.payload, ranks_per_node)) is not None:
            yield f"  {_since(moment_of(entry.payload, entry.at), run.begun_at)}  {told[0]:<8} {told[1]}"
    if count > incidents_max:
        yield f"             the newest {incidents_max} of {count} incidents are told; --incidents {count} tells all"
    for number, tale in enumerate(run.incidents, start=1):
        if number > count - incidents_max:
            yield ""
            yield from incident_lines(tale, number=number, of=count, run_begun_at=run.begun_at, evidence=evidence)
    if run.ended is not None:
        yield ""
        yield f"ended        {run.ended.ended_at:%Y-%m-%d %H:%M:%S}, {run.ended.outcome}: {run.ended.reason.sentence}"
        if run.ended.account is not None:
            yield from account_lines(run.ended.account)


def incident_lines(
    tale: IncidentTale, *, number: int, of: int, run_begun_at: datetime | None, evidence: Mapping[str, str]
) -> Iterator[str]:
    """One incident: what was seen, who was blamed and why, what was planned and why, how it ended, what it cost."""
    closed = tale.closed
    into = "" if run_begun_at is None else f", {duration(max(0.0, (tale.begun_at - run_begun_at).total_seconds()))} in"
    yield f"incident {number} of {of}  {tale.begun_at:%Y-%m-%d %H:%M:%S}{into}  {tale.incident_id}  {_outcome(tale)}"
    if tale.opened is None:
        yield "  hole: how it began is not in the record"
    for hole in tale.holes:
        yield f"  hole: {hole}"
    for at, payload in _told_in_order(tale):
        told = _told(payload, 1)
        if told is None:
            continue
        yield f"  {_since(at, tale.begun_at)}  {told[0]:<8} {told[1]}"
        yield from _why(payload, evidence)
    if closed is None:
        return
    if bar := phase_bar(closed.phases):
        yield f"  phases    {bar}"
    yield f"            {phase_words(closed.phases)}"
    if closed.account is not None:
        yield f"  cost      {cost_words(closed.account)}"
        for taken in closed.account.nodes_taken:
            left = f" from {taken.from_node_id}" if taken.from_node_id else ""
            because = f": {taken.because}" if taken.because else ""
            yield f"  node      {taken.node_id} has node_rank {taken.node_rank}{left}{because}"
    elif closed.phases.steps_lost is not None:
        yield f"  cost      {closed.phases.steps_lost} steps; this planner kept no accounts"


def _outcome(tale: IncidentTale) -> str:
    closed = tale.closed
    if closed is None:
        return f"open: {stands_now(tale)}"
    took = "" if closed.phases.total_s is None else f" after {duration(closed.phases.total_s)}"
    attempts = "" if closed.attempts == 1 else f", {closed.attempts} attempts"
    whose = f"{closed.attribution}, {closed.cause}" if closed.cause else str(closed.attribution)
    if closed.account is not None and closed.account.planned:
        whose = "planned"
    return f"{closed.outcome}{took}{attempts}  ({whose})"


def _told_in_order(tale: IncidentTale) -> list[tuple[datetime, Payload]]:
    """Entries in their own order; verdicts, which are of another stream, by time among them."""
    told = [(moment_of(entry.payload, entry.at), entry.payload) for entry in tale.entries]
    for verdict in tale.verdicts or _kept_verdicts(tale):
        if isinstance(verdict, FaultClassified):
            at = verdict.classified_at
        else:
            at = next(
                (moment_of(p, tale.begun_at) for _, p in told if _verdict_id(p) == verdict.fault_id), tale.begun_at
            )
        # Before the plan that acted on it, whatever the clocks of two machines say.
        place = next((n for n, (t, p) in enumerate(told) if t > at or _verdict_id(p) == verdict.fault_id), len(told))
        told.insert(place, (at, verdict))
    return told


def _kept_verdicts(tale: IncidentTale) -> tuple[JudgedFault, ...]:
    """The verdicts as the journal keeps them, where FAULTS has none any more."""
    closed = tale.closed
    if closed is not None and closed.account is not None:
        return closed.account.faults
    return tuple(plan.verdict for plan in tale.all(RecoveryPlanned) if plan.verdict is not None)


def _verdict_id(payload: Payload) -> str:
    match payload:
        case RecoveryPlanned():
            return payload.fault_id
        case IncidentClosed():
            judged = payload.account.faults if payload.account else ()
            return judged[-1].fault_id if judged else ""
        case _:
            return ""


def _told(payload: Payload, ranks_per_node: int) -> tuple[str, str] | None:
    match payload:
        case FaultClassified() | JudgedFault():
            sure = "" if payload.confidence is None else f" ({payload.confidence:.2f})"
            early = ", provisional" if payload.provisional else ""
            why = payload.reasons[0].sentence if payload.reasons else payload.summary
            return "verdict", f"{payload.attribution}, {payload.cause}{sure}{early}, asks for {payload.action}: {why}"
        case IncidentClosed():
            return "closed", f"{payload.outcome}: {payload.reason.sentence}"
        case _:
            return sentence(payload, ranks_per_node=ranks_per_node)


def _why(payload: Payload, evidence: Mapping[str, str]) -> Iterator[str]:
    """The reasons after the one that the sentence already has, and what they rest on."""
    match payload:
        case FaultClassified() | JudgedFault():
            yield from _reasons(payload.reasons[1:])
            yield from _evidence([id_ for reason in payload.reasons for id_ in reason.evidence_ids], evidence)
        case RecoveryPlanned():
            known = payload.verdict.reasons if payload.verdict is not None else ()
            yield from _reasons(tuple(reason for reason in payload.reasons[:-1] if reason not in known))
        case _:
            trigger = getattr(payload, "trigger", None)
            if isinstance(trigger, Reason):
                yield from _evidence(trigger.evidence_ids, evidence)


def _reasons(reasons: tuple[Reason, ...]) -> Iterator[str]:
    for reason in reasons[:REASONS_SHOWN]:
        weight = "" if reason.weight is None else f"{reason.weight:+.1f} "
        yield f"              why      {weight}{reason.sentence} [{reason.rule_id}]"
    if len(reasons) > REASONS_SHOWN:
        yield f"              why      ... and {len(reasons) - REASONS_SHOWN} more reasons"


def _evidence(ids: tuple[str, ...] | list[str], evidence: Mapping[str, str]) -> Iterator[str]:
    wanted = list(dict.fromkeys(ids))
    known = [id_ for id_ in wanted if id_ in evidence]
    for id_ in known[:EVIDENCE_SHOWN]:
        yield f"              evidence {evidence[id_]}"
    if len(known) > EVIDENCE_SHOWN:
        yield f"              evidence ... and {len(known) - EVIDENCE_SHOWN} more pieces"
    gone = len(wanted) - len(known)
    if gone:
        yield f"              evidence {gone} of {len(wanted)} pieces are not in the streams any more"


def _since(at: datetime, begun_at: datetime | None) -> str:
    if begun_at is None:
        return f"{at:%H:%M:%S}"
    seconds = (at - begun_at).total_seconds()
    return f"{seconds:+10.2f} s"
