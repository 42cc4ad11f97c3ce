"""May this order be carried out here and now? The fence of node actions: pure, with the reason as data.

An order reaches every life of an agent that ever listens for its node, so it says which boot and which life it means,
and until when. Nothing is run that the operator of the node did not permit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fault_contracts.node_actions import NodeAction, OrderNodeAction
from fault_contracts.payload import Reason


class ActionRuling(StrEnum):
    """What is done with an order. Closed."""

    RUN = "run"
    SHOW = "show"
    """Dry run: say what would be run."""
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What the agent knows of itself when an order comes.

    Attributes:
        allowed: actions that the operator permits here (PHALANX_NODE_ACTIONS).
        impossible: actions that cannot be done here, each with the reason.
        gpu_uuids: devices of this node.
        busy_with: operation under way; empty: none.
    """

    node_id: str
    instance_id: str
    boot_id: str
    allowed: Collection[NodeAction]
    impossible: Mapping[NodeAction, str]
    gpu_uuids: Collection[str]
    busy_with: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionJudgement:
    """The ruling and why."""

    ruling: ActionRuling
    reason: Reason


def judge_action(order: OrderNodeAction, facts: NodeFacts, *, now: datetime) -> ActionJudgement:
    """Fences first, then what the node can and may do. The first that objects decides."""
    objection = _fenced_off(order, facts, now) or _not_possible(order, facts)
    if objection is not None:
        return ActionJudgement(ruling=ActionRuling.REFUSE, reason=objection)
    if order.dry_run:
        return _judged(ActionRuling.SHOW, "node_action.dry_run", "a dry run: shown, not done")
    if order.action not in facts.allowed:
        allowed = ", ".join(sorted(action.value for action in facts.allowed)) or "nothing"
        return _judged(
            ActionRuling.REFUSE,
            "node_action.not_allowed",
            f"{order.action.value} is not permitted on {facts.node_id} (permitted: {allowed}); "
            "its operator permits it with PHALANX_NODE_ACTIONS",
        )
    if facts.busy_with:
        return _judged(
            ActionRuling.REFUSE,
            "node_action.busy",
            f"operation {facts.busy_with} is under way on {facts.node_id}; one at a time",
        )
    return _judged(ActionRuling.RUN, "node_action.permitted", f"{order.asked_by} asks: {order.reason.sentence}"[:2_000])


def _fenced_off(order: OrderNodeAction, facts: NodeFacts, now: datetime) -> Reason | None:
    if order.node_id != facts.node_id:
        return Reason(rule_id="node_action.other_node", sentence=f"meant for {order.node_id}; this is {facts.node_id}")
    if order.expires_at <= now:
        late_s = (now - order.expires_at).total_seconds()
        return Reason(rule_id="node_action.expired", sentence=f"the order expired {late_s:.0f} s ago")
    if order.boot_id and order.boot_id != facts.boot_id:
        return Reason(
            rule_id="node_action.other_boot",
            sentence=f"meant for boot {order.boot_id}; the machine is in boot {facts.boot_id or 'unknown'}",
        )
    if order.instance_id and order.instance_id != facts.instance_id:
        return Reason(
            rule_id="node_action.other_instance",
            sentence=f"meant for agent {order.instance_id}; this is {facts.instance_id}",
        )
    return None


def _not_possible(order: OrderNodeAction, facts: NodeFacts) -> Reason | None:
    if order.action is NodeAction.RESET_GPU:
        if not order.gpu_uuid:
            return Reason(rule_id="node_action.no_gpu_named", sentence="reset_gpu needs the uuid of the GPU")
        if order.gpu_uuid not in facts.gpu_uuids:
            return Reason(
                rule_id="node_action.unknown_gpu",
                sentence=f"{facts.node_id} knows no GPU {order.gpu_uuid}"
                + (f"; it has {', '.join(sorted(facts.gpu_uuids)[:8])}" if facts.gpu_uuids else ": it has none"),
            )
    why = facts.impossible.get(order.action)
    if why is not None:
        sentence = f"{order.action.value} cannot be done on {facts.node_id}: {why}"
        return Reason(rule_id="node_action.not_possible", sentence=sentence)
    return None


def _judged(ruling: ActionRuling, rule_id: str, sentence: str) -> ActionJudgement:
    return ActionJudgement(ruling=ruling, reason=Reason(rule_id=rule_id, sentence=sentence))
