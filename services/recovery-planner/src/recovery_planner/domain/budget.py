"""Restarts per sliding window: a job that keeps failing ends with a reason instead of burning its nodes for ever."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from fault_contracts.agent import JobSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What is left of it."""

    restarts: tuple[datetime, ...]
    """Those inside the window, oldest first."""
    left: int
    sentence: str


def budget_at(spec: JobSpec, restarts: tuple[datetime, ...], now: datetime) -> Budget:
    """The budget as it stands now. A restart exactly `window_s` old has left the window."""
    since = now - timedelta(seconds=spec.window_s)
    inside = tuple(at for at in restarts if at > since)
    left = max(0, spec.restarts_max - len(inside))
    return Budget(
        restarts=inside,
        left=left,
        sentence=f"{len(inside)} of {spec.restarts_max} restarts in the last {spec.window_s:g} s are used",
    )
