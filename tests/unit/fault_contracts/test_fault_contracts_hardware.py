"""Which conditions are of a node, which of them stop a gang, and which take the node out of use."""

import json
from datetime import UTC, datetime

import pytest

from fault_contracts.faults import Action, Attribution
from fault_contracts.hardware import HardwareChange, costs_node, costs_work, is_of_node, standing_of_record
from fault_contracts.health import Component, ConditionRaised, DeviceEvidence, Tier
from fault_contracts.payload import Health


def evidence(
    action: Action, *, origin: Attribution = Attribution.HARDWARE, sympathetic: bool = False
) -> DeviceEvidence:
    return DeviceEvidence(rule_id="xid.79", origin=origin, action=action, sympathetic=sympathetic)


def raised(component: Component, *, job_id: str = "") -> ConditionRaised:
    return ConditionRaised(
        condition_id="c",
        node_id="a",
        component=component,
        check="xid_79",
        tier=Tier.FAILURE,
        reason="gone",
        job_id=job_id,
        raised_at=datetime(2030, 1, 1, tzinfo=UTC),
    )


@pytest.mark.parametrize("action", [Action.RESET_GPU, Action.REBOOT_NODE, Action.REPLACE_NODE])
def test_what_needs_the_machine_takes_the_node_out_of_use(action: Action) -> None:
    assert costs_work(evidence(action))
    assert costs_node(evidence(action))


def test_a_contained_error_stops_the_gang_and_keeps_the_node() -> None:
    assert costs_work(evidence(Action.RESTART_PROCESS))
    assert not costs_node(evidence(Action.RESTART_PROCESS))


@pytest.mark.parametrize(
    "device",
    [
        None,
        evidence(Action.REPLACE_NODE, origin=Attribution.USER),
        evidence(Action.REPLACE_NODE, sympathetic=True),
        evidence(Action.WAIT_OR_IGNORE),
        evidence(Action.DONT_RETRY_NOTIFY_USER),
    ],
)
def test_a_users_fault_a_consequence_and_what_asks_for_nothing_cost_nothing(device: DeviceEvidence | None) -> None:
    assert not costs_work(device)
    assert not costs_node(device)


def test_a_condition_of_a_job_or_of_a_process_is_not_of_the_node() -> None:
    assert is_of_node(raised(Component.GPU))
    assert is_of_node(raised(Component.HOST))
    assert is_of_node(raised(Component.GPU, job_id="llm")), "whose process the driver names says who worked there"
    assert not is_of_node(raised(Component.PROCESS))
    assert not is_of_node(raised(Component.OTHER))


def test_a_change_of_a_newer_version_still_reads() -> None:
    assert HardwareChange("melted") is HardwareChange.OTHER


def test_a_node_record_gives_its_standing_and_anything_else_says_what_is_wrong() -> None:
    standing = {"node_id": "a", "fit": "bad"}
    assert standing_of_record(json.dumps({"v": 1, "standing": standing, "over": []}).encode()).fit is Health.BAD
    for raw, wanted in (
        (json.dumps({"v": 2, "standing": standing}), "version 2"),
        (json.dumps({"v": 1, "standing": {}}), "at node_id"),
        (json.dumps({"v": 1}), "no record of a node"),
        (json.dumps([]), "no record of a node"),
        ("{", "Expecting"),
    ):
        with pytest.raises(ValueError, match=wanted):
            standing_of_record(raw.encode())
