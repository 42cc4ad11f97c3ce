"""How long a gang may be without a mark of progress: learned from the job's own times, bounded by policy.

Two limits. Past the first the gang is *late*: nothing is wrong yet, but evidence is taken (stack dumps, /proc) and
hang_rules judge it. Past the second it is *overdue*: it counts as hung whatever the evidence says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from node_agent.domain.step_times import StepTimes, TimeSummary, TrainingPhase

GLOO_TIMEOUT_S = 1_800.0
"""torch.distributed's default time-out of a process group, 30 minutes (torch 2.13, distributed/constants.py): past it
the waiting ranks of a gloo job end by themselves, so there is nothing left to wait for."""


class LimitRule(StrEnum):
    """Where a limit comes from."""

    UNLEARNED = "unlearned"
    """Too few times of this phase are known."""
    FLOOR = "floor"
    LEARNED = "learned"
    CEILING = "ceiling"
    EXPECTED_PAUSE = "expected_pause"
    """A pause that nobody declared is due at this step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBounds:
    """What policy says about one phase.

    Attributes:
        floor_s: the limit is never shorter: hiccups of machine and network are no hangs.
        unlearned_s: the limit while fewer than `samples_min` times are known.
        samples_min: from so many on the limit is learned.
        ceiling_s: the limit is never longer, and a gang without progress for so long is overdue.
    """

    floor_s: float
    unlearned_s: float
    samples_min: int
    ceiling_s: float

    def __post_init__(self) -> None:
        if not 0 < self.floor_s <= self.unlearned_s <= self.ceiling_s:
            raise ValueError(
                f"limits must rise: 0 < floor {self.floor_s:g} <= unlearned {self.unlearned_s:g} "
                f"<= ceiling {self.ceiling_s:g}"
            )
        if self.samples_min < 1:
            raise ValueError(f"samples_min is {self.samples_min}; of no samples nothing is learned")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressPolicy:
    """Bounds per phase, and how a limit follows from times.

    A learned limit is the largest of `median_factor` medians, the median plus `spread_factor` spreads, and
    `longest_factor` times the longest recent time. Recent, not ever: one long step must not blind the detector for the
    rest of the job.

    Attributes:
        pause_factor: an expected pause may take so many times the longest like it.
    """

    first_step: PhaseBounds = PhaseBounds(floor_s=30.0, unlearned_s=300.0, samples_min=1, ceiling_s=GLOO_TIMEOUT_S)
    steady: PhaseBounds = PhaseBounds(floor_s=1.0, unlearned_s=30.0, samples_min=8, ceiling_s=GLOO_TIMEOUT_S)
    evaluation: PhaseBounds = PhaseBounds(floor_s=60.0, unlearned_s=300.0, samples_min=1, ceiling_s=GLOO_TIMEOUT_S)
    checkpoint: PhaseBounds = PhaseBounds(floor_s=60.0, unlearned_s=300.0, samples_min=1, ceiling_s=GLOO_TIMEOUT_S)
    median_factor: float = 5.0
    spread_factor: float = 10.0
    longest_factor: float = 1.5
    pause_factor: float = 3.0

    def bounds_of(self, phase: TrainingPhase) -> PhaseBounds:
        """The bounds of one phase."""
        match phase:
            case TrainingPhase.FIRST_STEP:
                return self.first_step
            case TrainingPhase.STEADY:
                return self.steady
            case TrainingPhase.EVALUATION:
                return self.evaluation
            case TrainingPhase.CHECKPOINT:
                return self.checkpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressLimit:
    """Late after `late_s`, overdue after `overdue_s`.

    Attributes:
        rule: how the first came about.
        times_known: durations of this phase ever seen.
        summary: of the newest of them; None when there are none.
        expected_s: the pause that is due, when there is one.
    """

    phase: TrainingPhase
    late_s: float
    overdue_s: float
    rule: LimitRule
    times_known: int
    summary: TimeSummary | None
    expected_s: float | None = None

    @property
    def sentence(self) -> str:
        """The first limit and its reason. Made when it is asked for: limits are taken with every step."""
        limit = f"{self.late_s:.3g} s"
        match self.rule:
            case LimitRule.UNLEARNED:
                return f"{limit}, as only {self.times_known} times of the phase {self.phase} are known"
            case LimitRule.FLOOR:
                return f"{limit}, the floor; {self._basis}"
            case LimitRule.LEARNED:
                return f"{limit}, from {self._basis}"
            case LimitRule.CEILING:
                return f"{limit}, the ceiling; {self._basis}"
            case LimitRule.EXPECTED_PAUSE:
                return f"{limit}, as a pause like those of {self.expected_s:.3g} s before is due at this step"

    @property
    def _basis(self) -> str:
        assert self.summary is not None, "only an unlearned limit is without times"
        return (
            f"median {self.summary.median_s:.3g} s, spread {self.summary.spread_s:.2g} s and longest "
            f"{self.summary.longest_s:.3g} s of the last {self.summary.count} times of the phase {self.phase}"
        )


def limit_of(phase: TrainingPhase, times: StepTimes, *, policy: ProgressPolicy) -> ProgressLimit:
    """The limit of a phase with these times behind it."""
    bounds = policy.bounds_of(phase)
    summary = times.summary
    if summary is None or times.count < bounds.samples_min:
        late_s, rule = bounds.unlearned_s, LimitRule.UNLEARNED
    else:
        late_s, rule = _learned_s(summary, policy), LimitRule.LEARNED
        if late_s < bounds.floor_s:
            late_s, rule = bounds.floor_s, LimitRule.FLOOR
        elif late_s > bounds.ceiling_s:
            late_s, rule = bounds.ceiling_s, LimitRule.CEILING
    return ProgressLimit(
        phase=phase,
        late_s=late_s,
        overdue_s=bounds.ceiling_s,
        rule=rule,
        times_known=times.count,
        summary=summary,
    )


def during_pause(limit: ProgressLimit, expected_s: float, *, policy: ProgressPolicy) -> ProgressLimit:
    """The limit where a learned pause is due: wide enough for one like it, unless it is so already."""
    late_s = min(policy.pause_factor * expected_s, policy.bounds_of(limit.phase).ceiling_s)
    if late_s <= limit.late_s:
        return limit
    return replace(limit, late_s=late_s, rule=LimitRule.EXPECTED_PAUSE, expected_s=expected_s)


def _learned_s(summary: TimeSummary, policy: ProgressPolicy) -> float:
    return max(
        policy.median_factor * summary.median_s,
        summary.median_s + policy.spread_factor * summary.spread_s,
        policy.longest_factor * summary.longest_s,
    )
