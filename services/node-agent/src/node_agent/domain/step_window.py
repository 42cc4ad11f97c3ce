"""Collects the own-work times of ranks into windows, which straggler compares; memory is bounded per rank.

Own work is a step without the wait for others. In synchronous training every rank's whole step takes as long as the
slowest rank's, so whole steps show no straggler: the time has to be taken before the collective.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from node_agent.domain.step_times import TimeSummary, summarise
from training_topology.identity import Rank

SAMPLES_MAX = 256
"""Times kept per rank and window. When they are full every other one is dropped, and then only every second, fourth,
... is taken: an even spread over the window, whatever the pace of steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowPolicy:
    """When a window is full.

    Attributes:
        length_s: a window lasts at least so long: five of them outlast a hiccup.
        samples_min: times needed of a rank; of fewer the median says little.
        length_s_max: then it closes with the ranks that have enough times. The others are unknown.
    """

    length_s: float = 10.0
    samples_min: int = 10
    length_s_max: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSamples:
    """Times of one rank in the open window; every `stride`-th of the `seen` ones is kept."""

    durations_s: tuple[float, ...] = ()
    seen: int = 0
    stride: int = 1

    def after(self, duration_s: float) -> RankSamples:
        """With one more time."""
        durations_s, stride = self.durations_s, self.stride
        if self.seen % stride == 0:
            durations_s = (*durations_s, duration_s)
            if len(durations_s) > SAMPLES_MAX:
                durations_s, stride = durations_s[::2], stride * 2
        return RankSamples(durations_s=durations_s, seen=self.seen + 1, stride=stride)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWindow:
    """The open window. `unusable` counts what was no time."""

    opened_s: float
    ranks: Mapping[Rank, RankSamples] = field(default_factory=dict)
    unusable: int = 0

    def after(self, rank: Rank, own_work_s: float) -> StepWindow:
        """With one more time."""
        if not (math.isfinite(own_work_s) and own_work_s >= 0):
            return StepWindow(opened_s=self.opened_s, ranks=self.ranks, unusable=self.unusable + 1)
        samples = self.ranks.get(rank) or RankSamples()
        ranks = {**self.ranks, rank: samples.after(own_work_s)}
        return StepWindow(opened_s=self.opened_s, ranks=ranks, unusable=self.unusable)

    def close(self, *, now_s: float, policy: WindowPolicy) -> tuple[StepWindow, Mapping[Rank, TimeSummary] | None]:
        """The times of each rank and a new window, or None and this window while it is not full."""
        age_s = now_s - self.opened_s
        if age_s < policy.length_s:
            return self, None
        enough = {rank: own for rank, own in self.ranks.items() if own.seen >= policy.samples_min}
        if len(enough) < max(len(self.ranks), 1) and age_s < policy.length_s_max:
            return self, None
        return StepWindow(opened_s=now_s), {rank: summarise(own.durations_s) for rank, own in enough.items()}


def own_work_of_arrivals(before_s: Mapping[Rank, float], now_s: Mapping[Rank, float]) -> Mapping[Rank, float]:
    """Own work of one step from the times at which ranks arrive at its collective, on one clock.

    All leave a collective when the last has arrived, so a rank has worked since the last arrival before. Marks that
    are set after the collective give the same time for every rank: nothing is found then, and nothing wrong.

    Args:
        before_s: arrivals of the step before.
        now_s: arrivals of this step; ranks that have none are left out.
    """
    if not before_s:
        return {}
    left_s = max(before_s.values())
    return {rank: arrived_s - left_s for rank, arrived_s in now_s.items() if arrived_s >= left_s}
