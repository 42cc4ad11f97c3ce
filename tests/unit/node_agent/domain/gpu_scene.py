"""Readings of healthy GPUs, to be spoiled by tests."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from fault_contracts.payload import Health
from node_agent.domain.gpu_health import Expected, Memory, judge_machine
from node_agent.domain.gpu_reading import GpuReading, MachineReading
from node_agent.domain.observation import Observation

T0 = datetime(2026, 1, 1, tzinfo=UTC)
HEALTHY = {
    "temperature_c": 41,
    "power_mw": 71_000,
    "clock_reasons": 0x1,
    "recovery_action": 0,
    "memory_temperature_c": 47,
    "shutdown_c": 92,
    "slowdown_c": 89,
    "memory_max_c": 95,
    "gpu_max_c": 87,
    "margin_c": 46,
    "power_limit_mw": 700_000,
    "utilization_percent": 0,
    "ecc_volatile_corrected": 0,
    "ecc_volatile_uncorrected": 0,
    "ecc_aggregate_corrected": 4,
    "ecc_aggregate_uncorrected": 1,
    "sram_threshold": 0,
    "sram_uncorrected": 0,
    "remap_corrected": 0,
    "remap_uncorrected": 0,
    "remap_pending": 0,
    "remap_failure": 0,
    "banks_max": 640,
    "banks_partial": 0,
    "banks_low": 0,
    "banks_none": 0,
    "inforom": 1,
    "pcie_width": 16,
    "pcie_width_max": 16,
    "pcie_generation": 5,
    "pcie_generation_max": 5,
    "pcie_replay": 0,
    "fabric_state": 3,
    "fabric_status": 0,
    "fabric_mask": 0xAA,
    "fabric_summary": 1,
    "mig_mode": 0,
    "mig_pending": 0,
    "processes": 0,
}
LINKS = {"nvlink_up": (1, 1, 1, 1), "nvlink_replay": (0,) * 4, "nvlink_recovery": (0,) * 4, "nvlink_crc": (0,) * 4}


def gpu(index: int = 0, **changes: object) -> GpuReading:
    """One GPU: numbers and by_link are laid over the healthy ones, None takes one away; the rest replaces fields."""
    numbers = {**HEALTHY, **changes.pop("numbers", {})}  # type: ignore[dict-item]
    by_link = {**LINKS, **changes.pop("by_link", {})}  # type: ignore[dict-item]
    fields: dict[str, object] = {
        "index": index,
        "pci_bus_id": f"0000:{0x10 + index:02x}:00",
        "uuid": f"GPU-{index}",
        "identity": {"name": "H100", "serial": f"1650{index}"},
        "numbers": {name: value for name, value in numbers.items() if value is not None},
        "by_link": {name: value for name, value in by_link.items() if value is not None},
        **changes,
    }
    return GpuReading(**fields)  # type: ignore[arg-type]


class Story:
    """Looks at one machine, one after the other."""

    def __init__(self, expected: Expected | None = None) -> None:
        self.expected = expected or Expected(boot_id="boot-1")
        self.memory = Memory()
        self.now = T0

    def look(
        self,
        *gpus: GpuReading,
        whole: bool = True,
        after_s: float = 30.0,
        count: int | None = -1,
        driver: str = "580",
        not_read: Iterable[str] = (),
    ) -> list[Observation]:
        """The observations of the next look; count -1: as many as there are readings."""
        self.now += timedelta(seconds=after_s)
        reading = MachineReading(
            count=len(gpus) if count == -1 else count,
            driver_version=driver,
            whole=whole,
            gpus=gpus,
            not_read=frozenset(not_read),
        )
        told, self.memory = judge_machine(reading, self.memory, self.expected, self.now)
        return told


def found(told: Iterable[Observation], check: str, component_id: str | None = None) -> Observation:
    """The one observation of a check."""
    hits = [one for one in told if one.check == check and component_id in (None, one.component_id)]
    assert len(hits) == 1, f"{check}: {hits}"
    return hits[0]


def not_ok(told: Iterable[Observation]) -> dict[tuple[str, str], Health]:
    """(component_id, check) of all that is not ok."""
    return {(one.component_id, one.check): one.health for one in told if one.health is not Health.OK}
