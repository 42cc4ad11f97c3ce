"""One GPU under one look: its reading, what was known of it before, and how observations of it are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain.counter_deltas import Counters, Growth
from node_agent.domain.gpu_reading import GpuReading, code_name
from node_agent.domain.observation import Observation

LIMITS = ("shutdown_c", "slowdown_c", "memory_max_c", "gpu_max_c", "power_limit_mw")
"""Read by the full look only; a quick look is held against what the last full one saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHistory:
    """What has to be remembered of a GPU from look to look.

    Attributes:
        counters: at the last full look.
        limits: LIMITS at the last full look.
        links_up: NVLinks that have been seen up.
        links_told: NVLinks that have been reported by themselves, and are from then on, up or down.
        software_thermal_since: since when software slows the clocks because of heat, without a break.
        generation_low: the PCIe generation was too low under load at the last full look.
    """

    counters: Counters | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    links_up: frozenset[int] = frozenset()
    links_told: frozenset[int] = frozenset()
    software_thermal_since: datetime | None = None
    generation_low: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLook:
    """What the judges of the parts are given."""

    reading: GpuReading
    history: GpuHistory
    growth: Growth
    at: datetime

    def number(self, name: str) -> int | None:
        """As read now, or, of the limits, as the last full look saw it. None: the GPU does not have it."""
        value = self.reading.numbers.get(name)
        if value is None and name not in self.reading.errors:
            return self.history.limits.get(name)
        return value

    def tell(
        self,
        check: str,
        health: Health,
        detail: str,
        *,
        values: Mapping[str, float | None] | None = None,
        attributes: Mapping[str, str] | None = None,
        old: bool = False,
        part: str = "",
    ) -> Observation:
        """An observation of this GPU, or of a part of it; values that are None are left out."""
        reading = self.reading
        place = {"pci_bus_id": reading.pci_bus_id, "index": str(reading.index), "name": reading.model}
        if part:
            place["gpu_uuid"] = reading.uuid
        return Observation(
            component=Component.GPU,
            component_id=f"{reading.component_id}/{part}" if part else reading.component_id,
            check=check,
            health=health,
            detail=detail,
            values={name: float(value) for name, value in (values or {}).items() if value is not None},
            attributes={name: text for name, text in {**place, **(attributes or {})}.items() if text},
            old=old,
            observed_at=self.at,
        )

    def unknown(self, check: str, *names: str) -> tuple[Observation, ...]:
        """Says that what this check needs exists and could not be read; nothing, when all was read or is not there."""
        unread = self.reading.unread(*names)
        if unread is None:
            return ()
        name, code = unread
        return (self.tell(check, Health.UNKNOWN, f"{name} could not be read: NVML says {code_name(code)}"),)


def health_of(bad: bool) -> Health:
    """Bad or ok."""
    return Health.BAD if bad else Health.OK
