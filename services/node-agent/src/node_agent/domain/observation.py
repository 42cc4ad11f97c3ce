"""One look at one thing of the machine: what every collector of the host role gives, before it becomes a message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from fault_contracts.health import Component
from fault_contracts.payload import Health


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What was seen of one (component, component_id, check).

    Attributes:
        component_id: gpu_uuid, GUID or name of an interface, mount point; empty for the machine itself.
        check: slug of what was looked at; one meaning for ever, e.g. gpu_temperature, xid_79, disk_space.
        health: unknown where it could not be read. What a machine does not have is no observation at all.
        detail: one sentence for people, with the value and the limit that it was held against.
        values: measured numbers, units last in their names.
        attributes: what names the device and the place: pci_bus_id, pid, process, xid.
        count: equal observations folded into this one.
        old: it happened before this agent began to watch.
    """

    component: Component
    component_id: str = ""
    check: str
    health: Health
    detail: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)
    count: int = 1
    old: bool = False
    observed_at: datetime

    @property
    def identity(self) -> tuple[Component, str, str]:
        """What it is about; a later observation of the same replaces it."""
        return (self.component, self.component_id, self.check)
