"""Collects the times of steps per local rank and cuts them into windows, which are compared over all nodes.

Nodes cut for themselves, but at the same steps: a window ends where a rank passes a multiple of STEPS_ALIGNED, so what
all ranks do in some steps only (a longer batch, an evaluation) is in the same window everywhere.

The collector is changed in place: it runs for every step of every rank, and copies would be most of its cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from node_agent.domain.step_times import TimeSummary, summarise
from training_topology.identity import LocalRank

SAMPLES_MAX = 256
"""Times kept per rank and window. When they are full every other one is dropped, and then only every second, fourth,
... is taken: an even spread over the window, whatever the pace of steps."""
STEPS_ALIGNED = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPolicy:
    """When a window is full.

    Attributes:
        quick_s: no window is shorter, so that fast steps cause no more than one report in so long.
        quick_steps: steps that are enough for a window once it is `quick_s` old.
        length_s: from this age on `steps_min` are enough.
        steps_min: times needed of a rank; of fewer the median says little, and the rank is left out.
        late: this many times `length_s` and `steps_min` close it although ranks are at different steps, as they are
            where no rank waits for another.
    """

    quick_s: float = 2.0
    quick_steps: int = 20
    length_s: float = 10.0
    steps_min: int = 10
    late: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTimes:
    """One rank in a closed window. `busy` is its own work, without waits; None when it was not told often enough."""

    whole: TimeSummary
    busy: TimeSummary | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedWindow:
    """What one window measured. Ranks with too few steps in it are not in `ranks`."""

    number: int
    first_step: int
    last_step: int
    duration_s: float
    ranks: Mapping[LocalRank, RankTimes]


@dataclass(slots=True)
class _Samples:
    times_s: list[float] = field(default_factory=list)
    seen: int = 0
    stride: int = 1

    def add(self, time_s: float) -> None:
        if self.seen % self.stride == 0:
            self.times_s.append(time_s)
            if len(self.times_s) > SAMPLES_MAX:
                del self.times_s[1::2]
                self.stride *= 2
        self.seen += 1


@dataclass(slots=True)
class _Rank:
    last_step: int
    last_at_s: float
    first_step: int
    whole: _Samples = field(default_factory=_Samples)
    busy: _Samples = field(default_factory=_Samples)


class StepWindows:
    """The windows of one generation on one node."""

    def __init__(self, *, opened_s: float, policy: WindowPolicy) -> None:
        self._policy = policy
        self._opened_s = opened_s
        self._number = 0
        self._ranks: dict[LocalRank, _Rank] = {}
        self.unusable = 0
        """Times that were none: negative, not finite, or of a step that is not later than the one before."""

    def note(
        self, local_rank: LocalRank, step: int, *, at_s: float, busy_s: float | None, now_s: float
    ) -> ClosedWindow | None:
        """A rank finished a step; returns the window that it completed.

        Args:
            local_rank: who.
            step: as the script counts; a script may report every tenth only, the time is divided then.
            at_s: when, by any clock of the rank's own.
            busy_s: its own work in that step.
            now_s: this node's clock, which the age of windows is measured by.
        """
        rank = self._ranks.get(local_rank)
        if rank is None:
            self._ranks[local_rank] = _Rank(last_step=step, last_at_s=at_s, first_step=step)
            return None
        steps, took_s, before = step - rank.last_step, at_s - rank.last_at_s, rank.last_step
        rank.last_step, rank.last_at_s = step, at_s
        if steps <= 0 or not (math.isfinite(took_s) and took_s >= 0):
            self.unusable += 1
            return None
        rank.whole.add(took_s / steps)
        if busy_s is not None:
            if math.isfinite(busy_s) and busy_s >= 0:
                rank.busy.add(busy_s)
            else:
                self.unusable += 1
        age_s = now_s - self._opened_s
        if age_s < self._policy.quick_s or not self._is_full(rank, before, age_s):
            return None
        return self._close(now_s)

    def _is_full(self, reporting: _Rank, before: int, age_s: float) -> bool:
        policy = self._policy
        if age_s >= policy.late * policy.length_s and reporting.whole.seen >= policy.late * policy.steps_min:
            return True
        if reporting.last_step // STEPS_ALIGNED == before // STEPS_ALIGNED:
            return False
        needed = policy.steps_min if age_s >= policy.length_s else policy.quick_steps
        return all(rank.whole.seen >= needed and rank.last_step >= reporting.last_step for rank in self._ranks.values())

    def _close(self, now_s: float) -> ClosedWindow:
        closed = ClosedWindow(
            number=self._number,
            first_step=min(rank.first_step for rank in self._ranks.values()),
            last_step=max(rank.last_step for rank in self._ranks.values()),
            duration_s=now_s - self._opened_s,
            ranks={
                local_rank: RankTimes(whole=summarise(rank.whole.times_s), busy=self._enough(rank.busy))
                for local_rank, rank in sorted(self._ranks.items())
                if rank.whole.seen >= self._policy.steps_min
            },
        )
        self._number += 1
        self._opened_s = now_s
        # A rank that was silent for a whole window holds up no other: it is unknown until it speaks again.
        self._ranks = {
            local_rank: _Rank(last_step=rank.last_step, last_at_s=rank.last_at_s, first_step=rank.last_step + 1)
            for local_rank, rank in self._ranks.items()
            if rank.whole.seen
        }
        return closed

    def _enough(self, busy: _Samples) -> TimeSummary | None:
        return summarise(busy.times_s) if busy.seen >= self._policy.steps_min else None


def peers_of(labels: Mapping[str, str]) -> str:
    """What ranks must have in common to be compared, from their labels; empty when they do not say.

    Stages of a pipeline do different work, so only ranks of one stage (`pp`) are compared. Replicas (`dp`) and shards
    of a layer (`tp`) do the same. A label `peers` says it for any other layout.
    """
    for name in ("peers", "pp"):
        if name in labels:
            return f"{name}={labels[name]}"[:256]
    return ""
