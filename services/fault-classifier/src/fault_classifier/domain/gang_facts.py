"""The gang as a whole, as findings: lost nodes, victims, nothing but victims, nothing at all, nothing known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fault_attribution.finding import Finding, Role
from fault_classifier.domain.device_facts import kinds_of_check
from fault_classifier.domain.evidence import Exit, Generation, LostNode, Note
from fault_classifier.domain.exit_facts import EVIDENCE_MAX, TEXT_MAX, exit_finding
from fault_classifier.domain.victim import is_communication_error, victim_reason


def lost_node_fact(lost: LostNode) -> Finding:
    """The agent of a node is gone."""
    return Finding(
        finding_id=f"agent_lost:{lost.evidence_id}",
        kind="agent_lost",
        role=Role.CAUSE,
        node=lost.node_id,
        text=f"the agent of {lost.node_id} no longer answers: {lost.sentence}"[:TEXT_MAX],
        rule_id="live.gang",
        because=(lost.evidence_id,),
    )


def victim_fact(exit_: Exit) -> Finding:
    """A death that only follows from another one."""
    reason = victim_reason(exit_)
    assert reason is not None, "asked for the words of a victim that is none"
    return exit_finding(exit_, "rank_followed", reason, {}, role=Role.VICTIM)


def note_facts(note: Note) -> Iterator[Finding]:
    """A failure condition that is the user's own, or that this version does not know: kept under its check's name."""
    for kind in kinds_of_check(note.check, note.xid, None):
        yield Finding(
            finding_id=f"{kind}:{note.evidence_id}",
            kind=kind,
            role=Role.SYMPTOM,
            node=note.node_id,
            device=note.device,
            text=note.sentence[:TEXT_MAX],
            rule_id="live.note",
            because=(note.evidence_id,),
        )


def facts_without_a_cause(generation: Generation, victims: Sequence[Exit]) -> Iterator[Finding]:
    """When the wait for a cause is over and nothing stands for itself."""
    lost_peer = [each for each in victims if each.error is not None and is_communication_error(each.error)]
    silent = [each for each in victims if each.error is None]
    if lost_peer:
        count = len(generation.exits) + generation.exits_dropped
        sentence = (
            f"all {count} deaths that were reported are communication errors with a peer; who broke first is not known"
        )
        yield _whole("communication_error", sentence, tuple(each.evidence_id for each in lost_peer))
    elif silent:
        first = silent[0]
        sentence = f"{victim_reason(first)}, and no other cause is known"
        yield exit_finding(first, "told_to_end", sentence, {}, role=Role.SYMPTOM)
    elif generation.notes:
        note = generation.notes[0]
        sentence = f"{note.check} on {note.node_id} is bad and nothing else is known: {note.sentence}"
        yield _whole("unread_report", sentence, (note.evidence_id,), node=note.node_id)
    else:
        yield _whole("nothing_reported", "an incident was opened and no evidence about it arrived in time", ())


def _whole(kind: str, sentence: str, because: tuple[str, ...], *, node: str = "") -> Finding:
    return Finding(
        finding_id=kind,
        kind=kind,
        role=Role.SYMPTOM,
        node=node,
        text=sentence[:TEXT_MAX],
        rule_id="live.gang",
        because=because[:EVIDENCE_MAX],
    )
