"""Counters that only ever grow, until something sets them back: what was added since the last look.

An epoch is a boot of the machine and a version of its driver. A counter that went down, although the epoch is the same,
was set back by a reset of the GPU or a reload of the driver: all that it shows now has been added since.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Values at one look."""

    epoch: str
    at: datetime
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """What was added, and in how much time.

    Attributes:
        added: by counter; a counter that was not there at the look before is not in it.
        over_s: since the look before; None: there was none, or it belongs to another epoch, and nothing is known.
    """

    added: Mapping[str, int]
    over_s: float | None = None

    def of(self, name: str) -> int | None:
        """Added to one counter; None: not known."""
        return self.added.get(name)

    def per_s(self, name: str) -> float | None:
        """The rate since the look before; None: not known."""
        added = self.added.get(name)
        return added / self.over_s if added is not None and self.over_s else None


def growth(before: Counters | None, now: Counters) -> Growth:
    """Compare two looks."""
    if before is None or before.epoch != now.epoch:
        return Growth(added={})
    added = {}
    for name, value in now.values.items():
        earlier = before.values.get(name)
        if earlier is not None:
            added[name] = value - earlier if value >= earlier else value
    return Growth(added=added, over_s=max(0.0, (now.at - before.at).total_seconds()))
