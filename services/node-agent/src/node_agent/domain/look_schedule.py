"""When a collector looks next, and what a look that failed means. Without jitter: ages in a table can be compared."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain.observation import Observation

MISSES_UNTIL_BAD = 3
"""One missed look is a hiccup and two may be one long hiccup; a machine that cannot be looked at three times in a row
gets no new work. Until then the collector is unknown, which raises nothing."""
BACKOFF_S_FIRST = 1.0
BACKOFF_S_MAX = 60.0
"""Between attempts to start an event source again: a driver that is loaded takes some ten seconds to come back."""
STEADY_S = 60.0
"""A source that ran for so long is well again, and its next failure is a first one."""


class WatchState(StrEnum):
    """How a collector or an event source stands."""

    STARTING = "starting"
    WORKING = "working"
    FAILING = "failing"
    STUCK = "stuck"
    """Looks that never came back hold all its places."""
    ABSENT = "absent"
    """An event source that has nothing to watch on this machine."""


def next_look_s(began_s: float, interval_s: float, now_s: float) -> float:
    """The next point of the grid that begins at `began_s`. A look that took too long skips points: no burst follows."""
    return began_s + interval_s * (math.floor((now_s - began_s) / interval_s) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What is known about one collector or event source.

    Attributes:
        looks: that came back with an answer.
        misses: in a row, without one.
        looked_s: monotonic time of the newest answer.
        took_s: by the newest answer.
    """

    name: str
    state: WatchState = WatchState.STARTING
    looks: int = 0
    misses: int = 0
    looked_s: float | None = None
    took_s: float = 0.0
    problem: str = ""

    def answered(self, *, now_s: float, took_s: float) -> Watch:
        """A look came back."""
        return replace(
            self,
            state=WatchState.WORKING,
            looks=self.looks + 1,
            misses=0,
            looked_s=now_s,
            took_s=took_s,
            problem="",
        )

    def missed(self, problem: str, *, stuck: bool = False) -> Watch:
        """A look brought nothing."""
        state = WatchState.STUCK if stuck else WatchState.FAILING
        return replace(self, state=state, misses=self.misses + 1, problem=problem)

    def observation(self, at: datetime) -> Observation:
        """The watch itself as a row: `<name>_collector`."""
        health, detail = Health.OK, f"{self.name} answers"
        if self.misses:
            health = Health.BAD if self.misses >= MISSES_UNTIL_BAD else Health.UNKNOWN
            detail = f"{self.problem} ({self.misses} in a row)"
        return Observation(
            component=Component.AGENT,
            check=f"{self.name}_collector",
            health=health,
            detail=detail,
            values={"misses": float(self.misses), "took_s": round(self.took_s, 3)},
            observed_at=at,
        )


def backoff_s(failures: int) -> float:
    """How long to wait before an event source is started again, after so many failures in a row (at least one)."""
    return float(min(BACKOFF_S_MAX, BACKOFF_S_FIRST * 2 ** min(failures - 1, 10)))
