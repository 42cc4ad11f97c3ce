"""What the host role asks of the things that look at the machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from fault_contracts.inventory import DeviceIdentity
from node_agent.domain.observation import Observation

Emit = Callable[[Observation], None]
"""Hands over one observation that must not wait for the next sweep. Never blocks, never raises; a full queue counts
what it drops, and that count is itself a signal."""


class Collector(Protocol):
    """Looks at a part of the machine from time to time.

    Whoever runs it gives it its deadline: a look that does not come back is abandoned and is a signal of its own
    (check `<name>_collector`, health unknown), and the others go on.
    """

    @property
    def name(self) -> str:
        """Slug: nvml, network, host."""
        ...

    @property
    def interval_s(self) -> float:
        """Between the beginnings of two looks."""
        ...

    @property
    def deadline_s(self) -> float:
        """A look that takes longer is abandoned."""
        ...

    async def collect(self) -> Sequence[Observation]:
        """Everything that this part of the machine has, good or bad. Empty: there is nothing of the kind here.

        Raises:
            CollectorFailed: nothing could be read; the sentence is for people.
        """
        ...

    async def close(self) -> None:
        """Give back what it holds (child processes, descriptors)."""
        ...


class EventSource(Protocol):
    """Tells what happens as it happens: the kernel log, the driver's events."""

    @property
    def name(self) -> str:
        """Slug: kmsg, nvml_events."""
        ...

    async def run(self, emit: Emit) -> None:
        """Until cancelled. Returns when this machine has nothing of the kind, after saying so.

        Raises:
            CollectorFailed: it cannot go on; whoever runs it starts it again after a while.
        """
        ...


class CollectorFailed(Exception):
    """A part of the machine could not be read; the text says what, where, and what to do."""


class DeviceDirectory(Protocol):
    """Which device sits at a PCI address: filled by NVML and by the kernel log, read by whoever has only one."""

    def learn(self, device: DeviceIdentity) -> None:
        """Take in what is known of a device; empty fields do not erase known ones."""
        ...

    def at_pci(self, pci_bus_id: str) -> DeviceIdentity | None:
        """By address in any of its spellings (`0000:3b:00`, `00000000:3B:00.0`)."""
        ...

    def all(self) -> Sequence[DeviceIdentity]:
        """Everything known."""
        ...
