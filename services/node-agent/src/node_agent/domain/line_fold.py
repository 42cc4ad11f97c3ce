"""Folds a storm of equal lines, by the times that the kernel gave them.

The first line of a kind is told at once. What follows within a window is counted and told when the window is over, as
one. Counts add up to what was read. Windows are cut by the kernel's own times and not by when a line was read: whoever
reads the same log again cuts them in the same places, and a copy has the id of its original.
"""

from __future__ import annotations

from dataclasses import dataclass

from node_agent.domain.kernel_finding import KernelFinding
from node_agent.domain.kmsg_record import KmsgRecord

WINDOW_US = 1_000_000
KINDS_MAX = 1_024
"""Open windows; 16 GPUs with 64 kinds each. Above it the oldest is told early."""

_Kind = tuple[str, str, str, str, str, int | None, bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldedLine:
    """One or more equal lines; sequence and time are those of the first of them."""

    finding: KernelFinding
    sequence: int
    since_boot_us: int
    count: int
    old: bool


@dataclass(slots=True)
class _Window:
    began_us: int
    first: FoldedLine | None = None
    more: int = 0


class LineFold:
    """Open windows, oldest first."""

    def __init__(self, *, kinds_max: int = KINDS_MAX) -> None:
        self._kinds_max = kinds_max
        self._windows: dict[_Kind, _Window] = {}
        self._newest_us = 0

    def __len__(self) -> int:
        """Open windows."""
        return len(self._windows)

    def take(self, finding: KernelFinding, record: KmsgRecord, *, old: bool = False) -> list[FoldedLine]:
        """One line; what is to be told because of it, in order."""
        # Times that go back by more than a window are another boot's (a log file that lives on).
        told = self.flush() if record.since_boot_us < self._newest_us - WINDOW_US else self.due(record.since_boot_us)
        self._newest_us = record.since_boot_us
        kind = _kind(finding, old=old)
        window = self._windows.get(kind)
        if window is not None and window.first is not None:
            window.more += 1
            return told
        line = FoldedLine(
            finding=finding, sequence=record.sequence, since_boot_us=record.since_boot_us, count=1, old=old
        )
        if window is not None:
            window.first, window.more = line, 1
            return told
        if len(self._windows) >= self._kinds_max:
            told += self._close(next(iter(self._windows)))
        self._windows[kind] = _Window(record.since_boot_us)
        return [*told, line]

    def due(self, now_us: int) -> list[FoldedLine]:
        """What windows that are over have counted. Only when all lines up to `now_us` were read."""
        told: list[FoldedLine] = []
        while self._windows:
            kind, window = next(iter(self._windows.items()))
            if window.began_us + WINDOW_US > now_us:
                break
            told += self._close(kind)
        return told

    def flush(self) -> list[FoldedLine]:
        """Everything that was counted and not told."""
        return [line for kind in list(self._windows) for line in self._close(kind)]

    def _close(self, kind: _Kind) -> list[FoldedLine]:
        window = self._windows.pop(kind)
        if window.first is None:
            return []
        first = window.first
        return [
            FoldedLine(
                finding=first.finding, sequence=first.sequence, since_boot_us=first.since_boot_us,
                count=window.more, old=first.old,
            )
        ]  # fmt: skip


def _kind(finding: KernelFinding, *, old: bool) -> _Kind:
    """Equal lines. Health is in it, for a link that goes down and up; and the process that it happened to."""
    return (finding.component, finding.device, finding.check, finding.health, finding.location, finding.pid, old)
