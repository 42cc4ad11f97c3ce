"""What is told when a condition is raised or cleared, with what is known about the device that it blames."""

from __future__ import annotations

from datetime import datetime

from fault_contracts.health import Component, ConditionCleared, ConditionRaised, DeviceEvidence, Tier
from fault_contracts.payload import Reason
from health_ingest.domain.condition import Condition
from health_ingest.domain.ruling import Ruling
from health_ingest.domain.signal import RANK_CHECKS, Signal


def raised(condition: Condition, tier: Tier, reason: Reason, now: datetime) -> ConditionRaised:
    """A condition became a problem or a failure."""
    cause = condition.cause
    assert cause is not None, "raised by nothing"
    return ConditionRaised(
        condition_id=condition.condition_id,
        node_id=condition.entity.node_id,
        component=condition.entity.component,
        component_id=condition.entity.component_id,
        check=condition.entity.check,
        tier=tier,
        reason=reason.sentence,
        job_id=cause.job_id,
        topology_version=cause.topology_version,
        rank=cause.rank,
        worker=cause.worker,
        faulted=cause.faulted,
        device=_device(condition, cause),
        signal_ids=condition.signal_ids,
        count=condition.count,
        raised_at=now,
    )


def cleared(condition: Condition, reason: Reason, now: datetime) -> ConditionCleared:
    """A condition is over."""
    return ConditionCleared(
        condition_id=condition.condition_id,
        node_id=condition.entity.node_id,
        check=condition.entity.check,
        reason=reason.sentence,
        cleared_at=now,
    )


def _device(condition: Condition, cause: Signal) -> DeviceEvidence | None:
    ruling = condition.ruling
    if ruling is None or condition.entity.check in RANK_CHECKS:
        return None
    said = cause.attributes
    is_gpu = condition.entity.component is Component.GPU
    component_id = condition.entity.component_id
    return DeviceEvidence(
        gpu_uuid=said.get("gpu_uuid", "") or (component_id if is_gpu and component_id.startswith("GPU-") else ""),
        board_serial=said.get("board_serial", "")[:256],
        pci_bus_id=(said.get("pci_bus_id", "") or _address(component_id))[:64],
        xid=_number(cause.code, "xid_"),
        sxid=_number(cause.code, "sxid_"),
        rule_id=ruling.rule_id,
        origin=ruling.origin,
        action=ruling.action,
        driver_action=ruling.driver_action[:64],
        sympathetic=ruling.sympathetic,
        pid=int(said["pid"]) if said.get("pid", "").isdecimal() else None,
        process=said.get("process", "")[:256],
        source=_source(ruling),
    )


def _address(component_id: str) -> str:
    """A component that is named by its PCI address, dddd:bb:dd."""
    return component_id if len(component_id) == 10 and component_id[4:8:3] == "::" else ""


def _number(code: str, prefix: str) -> int | None:
    number = code.removeprefix(prefix)
    return int(number) if number != code and number.isdecimal() else None


def _source(ruling: Ruling) -> str:
    return ruling.source[:512]
