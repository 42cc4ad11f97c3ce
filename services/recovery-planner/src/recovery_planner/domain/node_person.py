"""What a person may order about a node: quarantine, drain, release. The breaker is not asked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fault_contracts.payload import Reason
from fault_contracts.remediation import NodePhase
from recovery_planner.domain.node_care import Care
from recovery_planner.domain.node_life import EVIDENCE_KEPT
from recovery_planner.domain.node_machine import NodeTrigger
from recovery_planner.domain.node_story import blames_of


class NodeVerb(StrEnum):
    """Closed."""

    QUARANTINE = "quarantine"
    DRAIN = "drain"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonAsked:
    """An order about a node."""

    verb: NodeVerb
    by: str
    sentence: str


def person_asked(care: Care, event: PersonAsked) -> None:
    """Do it, or say why not; the last reason is the answer."""
    phase = care.life.phase
    if phase is NodePhase.REMEDIATING:
        sentence = f"{care.life.rung or 'an action'} is under way on {care.life.node_id}; wait until it ended"
        care.explain("person.refused", sentence)
        return
    reason = Reason(rule_id="person", sentence=f"{event.by}: {event.sentence}"[:2_048])
    if event.verb is NodeVerb.RELEASE:
        _release(care, event, reason)
    elif phase in (NodePhase.LISTED, NodePhase.REPLACED):
        care.explain("person.refused", f"{care.life.node_id} is {phase}: it is out of use already")
    else:
        _hold(care, event, reason)


def _hold(care: Care, event: PersonAsked, reason: Reason) -> None:
    """From here on the ladder leaves it alone."""
    care.end_trial(well=False)
    if care.life.phase in (NodePhase.QUARANTINED, NodePhase.DRAINING):
        care.change(by=event.by, reason=reason, deadline_at=None)
    else:
        care.move(NodeTrigger.HELD, reason, by=event.by, operation=None)
    if event.verb is NodeVerb.DRAIN and care.life.phase is NodePhase.QUARANTINED and care.around.occupied_by:
        care.move(NodeTrigger.DRAIN, reason, by=event.by)
    jobs = ", ".join(care.around.occupied_by[:4])
    there = f"ranks of {jobs} go at the next stop" if jobs else "no ranks are there"
    care.explain("person.held", f"{care.life.node_id} is {care.life.phase}; {there}")


def _release(care: Care, event: PersonAsked, reason: Reason) -> None:
    life = care.life
    care.end_trial(well=False)
    match life.phase:
        case NodePhase.OK:
            care.explain("person.nothing", f"{life.node_id} is not held")
            return
        case NodePhase.SUSPECT | NodePhase.PROBATION | NodePhase.VALIDATING:
            gated = False
        case _:
            # Whoever never left need not be let in again.
            gated = care.policy.ladder is not None and care.ladder.rounds_min > 0 and not care.around.occupied_by
    standing = care.around.standing
    # What stands against it now is known to the person; only what comes later begins a story.
    known = [blame.evidence_id for blame in blames_of(standing)] if standing is not None else []
    evidence = tuple(dict.fromkeys((*life.evidence_ids, *known)))[-EVIDENCE_KEPT:]
    trigger = NodeTrigger.RELEASED if gated else NodeTrigger.FREED
    care.move(
        trigger,
        reason,
        blame=None,
        operation=None,
        evidence_ids=evidence,
        rung=None,
        rungs_done=(),
        rounds=0,
        listed=(),
        wanted=None,
        successor="",
        predecessor="",
        probation_until=None,
        vouched=True,
    )
    how = "it is validated first" if gated else "it may work"
    care.explain("person.released", f"{care.life.node_id} is let go by {event.by}; {how}")
