"""The order of the policy's answers, on small tables of our own; the shipped tables have their test in adapters."""

from datetime import UTC, datetime

import pytest

from fault_contracts.faults import Action, Attribution
from fault_contracts.health import Component
from fault_contracts.payload import Health
from health_ingest.domain.ruling import Clears, Weight
from health_ingest.domain.signal import Entity, Signal
from health_ingest.domain.xid_policy import clearing, is_driver_check, weigh
from health_ingest.domain.xid_rows import Judgement, WishRow, XidPolicy, XidRow

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
RESET = Judgement(weight=Weight.FAILURE, origin=Attribution.HARDWARE, action=Action.RESET_GPU)
REBOOT = Judgement(weight=Weight.FAILURE, origin=Attribution.HARDWARE, action=Action.REBOOT_NODE)
NOTED = Judgement(weight=Weight.RECORD, origin=Attribution.PLATFORM, action=Action.WAIT_OR_IGNORE)


def row(code: int, judgement: Judgement, cancels: int | None = None) -> XidRow:
    return XidRow(
        code=code, name=f"code {code}", meaning="a test row", judgement=judgement, fault_class=f"class_{code}",
        clears=Clears.RESET, cancels=cancels, source="this test",
    )  # fmt: skip


REBOOT_WISH = WishRow(
    value=2, slug="node_reboot", driver_text="Node Reboot Required", judgement=REBOOT, sentence="reboot", source="test"
)
POLICY = XidPolicy(
    xids={95: row(95, RESET), 162: row(162, NOTED, cancels=163), 163: row(163, NOTED)},
    wishes={"node_reboot": REBOOT_WISH},
)


def signal(check: str, health: Health = Health.BAD, **attributes: str) -> Signal:
    return Signal(
        signal_id="1",
        entity=Entity(node_id="node-a", component=Component.GPU, component_id="GPU-1", check=check),
        health=health,
        detail="as the driver said",
        observed_at=NOW,
        attributes=attributes,
    )


def test_a_code_without_a_row_is_recorded_and_evicts_nothing() -> None:
    for check in ("xid_999", "sxid_99999"):
        ruling = weigh(signal(check), (), now=NOW, policy=POLICY)
        assert (ruling.weight, ruling.origin, ruling.action) == (
            Weight.RECORD, Attribution.UNKNOWN, Action.WAIT_OR_IGNORE,
        )  # fmt: skip
        assert ruling.fault_class == check


def test_the_wish_of_the_driver_replaces_the_action_of_the_row() -> None:
    alone = weigh(signal("xid_95"), (), now=NOW, policy=POLICY)
    assert (alone.action, alone.driver_action) == (Action.RESET_GPU, "")
    wished = weigh(signal("xid_95"), (), now=NOW, policy=POLICY, driver_wish="node_reboot")
    assert (wished.action, wished.driver_action) == (Action.REBOOT_NODE, "node_reboot")


@pytest.mark.parametrize("check", ["xid_154", "gpu_recovery_action"])
def test_both_witnesses_of_the_wish_give_one_class(check: str) -> None:
    ruling = weigh(signal(check, recovery_action="node_reboot"), (), now=NOW, policy=POLICY)
    assert (ruling.fault_class, ruling.action) == ("gpu_recovery_action", Action.REBOOT_NODE)


def test_a_wish_of_a_newer_driver_is_shown_and_evicts_nothing() -> None:
    ruling = weigh(signal("xid_154", recovery_action="value_9"), (), now=NOW, policy=POLICY)
    assert (ruling.weight, ruling.driver_action) == (Weight.RECORD, "value_9")


def test_the_wish_for_nothing_ends_what_a_reset_clears() -> None:
    ended = clearing(signal("xid_154", Health.OK, recovery_action="none"), POLICY)
    assert ended is not None
    assert ended.fault_class is None
    assert clearing(signal("xid_154", recovery_action="node_reboot"), POLICY) is None


def test_162_ends_163_only() -> None:
    ended = clearing(signal("xid_162", Health.OK), POLICY)
    assert ended is not None
    assert ended.fault_class == "class_163"
    assert clearing(signal("xid_95"), POLICY) is None


def test_which_checks_are_the_drivers() -> None:
    assert all(map(is_driver_check, ("xid_1", "xid_154", "sxid_20034", "gpu_recovery_action")))
    assert not any(map(is_driver_check, ("gpu_temperature", "xid_", "xid_13x", "nvlink_state")))
