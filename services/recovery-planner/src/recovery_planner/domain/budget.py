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


def budget_at(spec: JobSpec, restarts: tuple[datetime, ...], now: datetime, *, ceiling: int | None = None) -> Budget:
    """The budget as it stands now; the policy's word comes before the flags', and the cluster's ceiling before both.

    A restart exactly `window_s` old has left the window.
    """
    policy = spec.policy
    window_s = spec.window_s if policy is None or policy.window_s is None else policy.window_s
    limit = spec.restarts_max if policy is None or policy.restarts_max is None else policy.restarts_max
    capped = ceiling is not None and ceiling < limit
    limit = limit if ceiling is None else min(limit, ceiling)
    since = now - timedelta(seconds=window_s)
    inside = tuple(at for at in restarts if at > since)
    left = max(0, limit - len(inside))
    return Budget(
        restarts=inside,
        left=left,
        sentence=f"{len(inside)} of {limit} restarts in the last {window_s:g} s are used"
        + (" (the cluster allows no more)" if capped else ""),
    )
