"""What a raised condition says about the device that it blames."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fault_contracts.faults import Action, Attribution
from fault_contracts.health import Component, Tier
from fault_contracts.payload import Health, Reason
from health_ingest.domain.condition import Condition, Phase
from health_ingest.domain.condition_events import raised
from health_ingest.domain.ruling import Clears, Ruling, Weight
from health_ingest.domain.signal import Entity, Signal

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def told(component: Component, component_id: str, code: str, attributes: dict[str, str], *, ruled: bool = True):
    entity = Entity(node_id="n", component=component, component_id=component_id, check=code)
    cause = Signal(
        signal_id="s", entity=entity, health=Health.BAD, detail="", code=code, attributes=attributes, observed_at=NOW
    )
    ruling = Ruling(
        weight=Weight.FAILURE,
        fault_class=code,
        clears=Clears.RESET,
        origin=Attribution.HARDWARE,
        action=Action.REBOOT_NODE,
        driver_action="node_reboot",
        rule_id="xid.79",
        sentence="fell off",
        source="catalog",
    )
    condition = Condition(
        entity=entity,
        phase=Phase.FAILURE,
        condition_id="c",
        count=1,
        raised_at=NOW,
        cause=cause,
        ruling=ruling if ruled else None,
    )
    return raised(condition, Tier.FAILURE, Reason(rule_id="xid.79", sentence="fell off"), NOW).device


def test_a_gpu_is_named_by_its_uuid_and_the_code_is_a_number() -> None:
    device = told(Component.GPU, "GPU-1", "xid_79", {"pci_bus_id": "0000:3b:00", "pid": "12", "process": "python"})
    assert (device.gpu_uuid, device.pci_bus_id, device.xid, device.sxid) == ("GPU-1", "0000:3b:00", 79, None)
    assert (device.pid, device.process) == (12, "python")
    assert (device.origin, device.action, device.driver_action) == ("hardware", "reboot_node", "node_reboot")


@pytest.mark.parametrize(
    ("component_id", "attributes", "gpu_uuid", "address"),
    [
        ("0000:3b:00", {}, "", "0000:3b:00"),
        ("0000:3b:00", {"gpu_uuid": "GPU-2"}, "GPU-2", "0000:3b:00"),
        ("", {}, "", ""),
    ],
)
def test_a_gpu_that_is_known_by_its_address_only(
    component_id: str, attributes: dict[str, str], gpu_uuid: str, address: str
) -> None:
    device = told(Component.GPU, component_id, "xid_79", attributes)
    assert (device.gpu_uuid, device.pci_bus_id) == (gpu_uuid, address)


def test_a_switch_has_its_own_numbers() -> None:
    device = told(Component.NVSWITCH, "0000:c1:00", "sxid_20034", {"pid": "-"})
    assert (device.sxid, device.xid, device.gpu_uuid, device.pid) == (20034, None, "", None)


def test_without_a_ruling_nobody_is_blamed() -> None:
    assert told(Component.GPU, "GPU-1", "xid_79", {}, ruled=False) is None
