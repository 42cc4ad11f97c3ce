"""Xid events of NVML as a second witness: told only when the kernel log does not tell the same.

The kernel log comes first, because NVML has been silent on some codes (79, 119, 120: NVIDIA/DCGM#162; 62: #235) and it
says more (process, place, containment). An event of NVML is held for a while; if the kernel log tells the same code of
the same GPU before the time is over, or told it shortly before, the event is dropped. Otherwise it is told, with how
many equal ones came in that time: the log may be closed to this agent, or the line may be lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

HELD_S = 2.0
"""The reader of the kernel log folds equal lines for up to 1 s before it tells them; twice that."""
EVENTS_MAX = 1_024
"""(GPU, code) pairs in memory; 16 GPUs with 60 codes each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEvent:
    """An Xid of one GPU, as NVML told it.

    Attributes:
        devices: every name of the GPU: uuid, PCI address.
        count: equal events while it was held.
    """

    devices: frozenset[str]
    code: int
    gpu_instance: int | None = None
    compute_instance: int | None = None
    count: int = 1


class XidWitness:
    """Who told what. Times are monotonic seconds."""

    def __init__(self, held_s: float = HELD_S) -> None:
        self.held_s = held_s
        """How long an event waits for the kernel log."""
        self._by_kernel: dict[tuple[str, int], float] = {}
        self._held: dict[tuple[str, int], tuple[float, XidEvent]] = {}
        self.confirmed = 0
        """Events that the kernel log told too."""
        self.left_out = 0
        """Events that did not fit."""

    def kernel_told(self, devices: Iterable[str], code: int, *, now_s: float) -> None:
        """The kernel log has it: what is held of the same is dropped."""
        self._forget(now_s)
        for device in devices:
            if device and len(self._by_kernel) < EVENTS_MAX:
                self._by_kernel[device, code] = now_s
        for key, (_, event) in list(self._held.items()):
            if event.code == code and event.devices & frozenset(devices):
                del self._held[key]
                self.confirmed += event.count

    def nvml_told(self, event: XidEvent, *, now_s: float) -> None:
        """NVML has it: held, unless the kernel log was first."""
        self._forget(now_s)
        if any((device, event.code) in self._by_kernel for device in event.devices):
            self.confirmed += event.count
            return
        key = (min(event.devices), event.code)
        if key in self._held:
            since_s, held = self._held[key]
            self._held[key] = (since_s, replace(held, count=held.count + event.count))
        elif len(self._held) < EVENTS_MAX:
            self._held[key] = (now_s, event)
        else:
            self.left_out += event.count

    def due(self, now_s: float) -> tuple[XidEvent, ...]:
        """Events that were held long enough; they are to be told now."""
        ready = [key for key, (since_s, _) in self._held.items() if now_s - since_s >= self.held_s]
        return tuple(self._held.pop(key)[1] for key in ready)

    def next_due_s(self) -> float | None:
        """When the oldest event has been held long enough; None: none is held."""
        times = [since_s for since_s, _ in self._held.values()]
        return min(times) + self.held_s if times else None

    def _forget(self, now_s: float) -> None:
        old = [key for key, told_s in self._by_kernel.items() if now_s - told_s > self.held_s]
        for key in old:
            del self._by_kernel[key]
