"""How long steps take: robust statistics in bounded memory, per phase of training.

Median and median absolute deviation, because one slow step in fifty must move neither. Pure; durations come in.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

SAMPLES_MAX = 128
"""Durations kept per phase: a few seconds to a few minutes of training, and sorted in about 10 us."""
REFRESH_EVERY = 8
"""Once the first REFRESH_ALWAYS samples are in, the statistics are taken anew after so many more of them: they move
slowly then, and sorting for each step of each rank would be the agent's largest cost."""
REFRESH_ALWAYS = 16
NORMAL_SPREAD = 1.4826
"""Median absolute deviation times this is the standard deviation, when the noise is normal (1 / 0.6745)."""


class TrainingPhase(StrEnum):
    """What a gang does between two marks of progress; each has its own times."""

    FIRST_STEP = "first_step"
    """From the start of the workers to the first finished step: loading, compiling, first communication."""
    STEADY = "steady"
    EVALUATION = "evaluation"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSummary:
    """Statistics of some durations.

    Attributes:
        count: durations behind the numbers.
        spread_s: median absolute deviation, scaled to a standard deviation.
        longest_s: the longest of them.
    """

    count: int
    median_s: float
    spread_s: float
    longest_s: float


def summarise(durations_s: Sequence[float]) -> TimeSummary:
    """Median, spread and longest.

    Raises:
        ValueError: no durations; of nothing there is no median.
    """
    if not durations_s:
        raise ValueError("no durations to summarise")
    median_s = statistics.median(durations_s)
    spread_s = NORMAL_SPREAD * statistics.median([abs(duration_s - median_s) for duration_s in durations_s])
    return TimeSummary(count=len(durations_s), median_s=median_s, spread_s=spread_s, longest_s=max(durations_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """The newest durations of one phase.

    Attributes:
        recent_s: oldest first, at most SAMPLES_MAX.
        count: durations ever taken in.
        unusable: what was no duration (negative, not finite): counted, and otherwise ignored.
        summary: of `recent_s`; None before the first. A longest one counts at once, for it widens limits; the rest is
            up to REFRESH_EVERY - 1 durations old.
    """

    recent_s: tuple[float, ...] = ()
    count: int = 0
    unusable: int = 0
    summary: TimeSummary | None = None

    def after(self, duration_s: float) -> StepTimes:
        """With one more duration."""
        if not (math.isfinite(duration_s) and duration_s >= 0):
            return StepTimes(recent_s=self.recent_s, count=self.count, unusable=self.unusable + 1, summary=self.summary)
        recent_s = (*self.recent_s, duration_s)[-SAMPLES_MAX:]
        count = self.count + 1
        is_due = (
            self.summary is None
            or count <= REFRESH_ALWAYS
            or count % REFRESH_EVERY == 0
            or duration_s > self.summary.longest_s
        )
        # Spelled out: dataclasses.replace takes several times as long, and this runs for every step.
        return StepTimes(
            recent_s=recent_s,
            count=count,
            unusable=self.unusable,
            summary=summarise(recent_s) if is_due else self.summary,
        )
