"""One event in, the next record of a node and the breaker's out, with reasons: the life of a node as one pure function.

Callable without a bus: the simulator and `phalanx simulate` use it as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fault_contracts.cluster_policy import ClusterPolicy
from fault_contracts.payload import Reason
from fault_contracts.remediation import NodePhase
from recovery_planner.domain import node_person, node_remedy, node_replacement, node_story
from recovery_planner.domain.breaker import Breaker
from recovery_planner.domain.node_care import Around, Care
from recovery_planner.domain.node_life import NodeLife
from recovery_planner.domain.node_machine import NodeTrigger
from recovery_planner.domain.node_person import PersonAsked
from recovery_planner.domain.node_remedy import ActionEnded
from recovery_planner.domain.node_replacement import (
    ArrivalRefused,
    ArrivalTaken,
    LedgerTold,
    NodeArrived,
    NodeRejected,
    PoolFailed,
    PoolNamed,
    PoolRefused,
    PoolTook,
)
from recovery_planner.domain.node_story import BlameWithdrawn, NodeBlamed

MOVES_MAX = 12
"""Moves that can follow from one event: blamed, taken, drained, up the whole ladder, listed. More would be a loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLooked:
    """Time passed, or something around the node changed. What matters is read from the record and from around it."""


NodeEvent = (
    NodeBlamed
    | BlameWithdrawn
    | ActionEnded
    | PersonAsked
    | PoolTook
    | PoolRefused
    | PoolNamed
    | PoolFailed
    | ArrivalTaken
    | ArrivalRefused
    | NodeArrived
    | NodeRejected
    | LedgerTold
    | NodeLooked
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tended:
    """What one event did.

    Attributes:
        life: the next record; what is to be published is in its `pending`.
        durable: whether it must be written before anything else is done.
    """

    life: NodeLife
    breaker: Breaker
    reasons: tuple[Reason, ...]
    durable: bool


def new_life(node_id: str, now: datetime) -> NodeLife:
    """Of a node that nothing was ever said against."""
    reason = Reason(rule_id="node.new", sentence="nothing is held against it")
    return NodeLife(node_id=node_id, since=now, reason=reason)


def tend(
    life: NodeLife,
    event: NodeEvent,
    *,
    now: datetime,
    policy: ClusterPolicy,
    around: Around,
    breaker: Breaker,
    cause_id: str = "",
) -> Tended:
    """Decide. Idempotent: an event that was handled before changes nothing.

    Raises:
        IllegalMove: a defect: a decision asked for a move that the table does not have. Nothing was changed.
    """
    care = Care(life, breaker=breaker, around=around, now=now, policy=policy, cause_id=cause_id)
    _take(care, event)
    node_story.read_standing(care)
    _settle(care)
    changed = care.durable and (care.life != life or care.breaker != breaker)
    return Tended(life=care.life, breaker=care.breaker, reasons=tuple(care.reasons), durable=changed)


def _take(care: Care, event: NodeEvent) -> None:
    match event:
        case NodeBlamed():
            node_story.node_blamed(care, event)
        case BlameWithdrawn():
            node_story.blame_withdrawn(care, event)
        case ActionEnded():
            node_remedy.action_ended(care, event)
        case PersonAsked():
            node_person.person_asked(care, event)
        case PoolTook():
            node_replacement.pool_took(care)
        case PoolRefused():
            node_replacement.pool_refused(care, event)
        case PoolNamed():
            node_replacement.pool_named(care, event)
        case PoolFailed():
            node_replacement.pool_failed(care, event)
        case ArrivalTaken():
            node_replacement.arrival_taken(care, event)
        case ArrivalRefused():
            node_replacement.arrival_refused(care, event)
        case NodeArrived():
            node_replacement.node_arrived(care, event)
        case NodeRejected():
            node_replacement.node_rejected(care, event)
        case LedgerTold():
            node_replacement.ledger_told(care, event)
        case NodeLooked():
            pass


def _settle(care: Care) -> None:
    """Move the node as far as its record and what is around it allow.

    Raises:
        AssertionError: it does not come to rest.
    """
    for _ in range(MOVES_MAX):
        before = (care.life.phase, care.life.rung, care.life.operation)
        _settle_once(care)
        if (care.life.phase, care.life.rung, care.life.operation) == before:
            return
    raise AssertionError(f"node {care.life.node_id} does not come to rest")


def _settle_once(care: Care) -> None:
    life = care.life
    if _carries_listed(care):
        return
    match life.phase:
        case NodePhase.SUSPECT:
            node_story.suspect(care)
        case NodePhase.QUARANTINED:
            if not life.is_by_person:
                care.move(NodeTrigger.DRAIN, life.reason)
        case NodePhase.DRAINING:
            node_remedy.drained(care)
        case NodePhase.REMEDIATING:
            node_remedy.remediating(care)
        case NodePhase.VALIDATING:
            node_remedy.validating(care)
        case NodePhase.PROBATION:
            if care.is_due:
                reason = care.explain("node.proven", f"{life.node_id} went through its probation without a fault")
                care.move(NodeTrigger.PROVEN, reason, probation_until=None, rung=None, blame=None)
        case NodePhase.REPLACED:
            node_replacement.replaced(care)
        case NodePhase.OK | NodePhase.LISTED:
            pass


def _carries_listed(care: Care) -> bool:
    """A device that another node was given up with: whatever the name of the node, it does not work."""
    life, bad = care.life, care.around.bad
    may_work = life.phase in (NodePhase.OK, NodePhase.SUSPECT, NodePhase.PROBATION)
    if bad is None or life.vouched or not may_work or bad.rule_id != "pool.device_listed":
        return False
    care.move(NodeTrigger.RECOGNISED, care.explain(bad.rule_id, bad.sentence), operation=None)
    return True
