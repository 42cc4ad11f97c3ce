"""The fence of node actions: who may order what, of which boot and life, until when."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fault_contracts.node_actions import NodeAction, OrderNodeAction
from fault_contracts.payload import Reason
from node_agent.domain.node_action import ActionRuling, NodeFacts, judge_action

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FACTS: dict[str, Any] = {
    "node_id": "node-a",
    "instance_id": "life-2",
    "boot_id": "boot-2",
    "allowed": {NodeAction.VALIDATE, NodeAction.RESET_GPU},
    "impossible": {NodeAction.DRAIN: "no command is set for it"},
    "gpu_uuids": {"GPU-1"},
}


def judged(*, facts: dict[str, Any] | None = None, **order: Any) -> tuple[ActionRuling, str]:
    """Ruling and rule of an order that is fine but for what is given."""
    fields: dict[str, Any] = {
        "node_id": "node-a",
        "operation_id": "op-1",
        "action": NodeAction.VALIDATE,
        "asked_by": "alice",
        "reason": Reason(rule_id="t", sentence="a drill"),
        "expires_at": NOW + timedelta(seconds=30),
    }
    judgement = judge_action(OrderNodeAction(**(fields | order)), NodeFacts(**(FACTS | (facts or {}))), now=NOW)
    return judgement.ruling, judgement.reason.rule_id


def test_a_permitted_order_runs() -> None:
    assert judged() == (ActionRuling.RUN, "node_action.permitted")
    assert judged(action=NodeAction.RESET_GPU, gpu_uuid="GPU-1", boot_id="boot-2", instance_id="life-2")[0] == "run"


@pytest.mark.parametrize(
    ("order", "rule"),
    [
        ({"node_id": "node-b"}, "node_action.other_node"),
        ({"expires_at": NOW}, "node_action.expired"),
        ({"boot_id": "boot-1"}, "node_action.other_boot"),
        ({"instance_id": "life-1"}, "node_action.other_instance"),
        ({"action": NodeAction.RESET_GPU}, "node_action.no_gpu_named"),
        ({"action": NodeAction.RESET_GPU, "gpu_uuid": "GPU-9"}, "node_action.unknown_gpu"),
        ({"action": NodeAction.DRAIN}, "node_action.not_possible"),
        ({"action": NodeAction.REBOOT}, "node_action.not_allowed"),
    ],
)
def test_what_is_refused(order: dict[str, Any], rule: str) -> None:
    assert judged(**order) == (ActionRuling.REFUSE, rule)


def test_a_dry_run_needs_no_permission_and_waits_for_nobody() -> None:
    busy = {"busy_with": "op-0"}
    assert judged(action=NodeAction.REBOOT, dry_run=True, facts=busy) == (ActionRuling.SHOW, "node_action.dry_run")


def test_a_dry_run_is_fenced_as_well() -> None:
    assert judged(dry_run=True, boot_id="boot-1")[1] == "node_action.other_boot"


def test_one_at_a_time() -> None:
    assert judged(facts={"busy_with": "op-0"}) == (ActionRuling.REFUSE, "node_action.busy")
