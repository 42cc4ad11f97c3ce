"""When did the gang last move, in which phase is it, and is that late? One value per job and node; time comes in.

A mark of progress is whatever the best source gives: a step over worker-link, a line of a progress rule, CPU time.
`now_s` is a monotonic clock. What was learned outlives a restart; what was going on does not, so that a phase that
began and never ended cannot hold the next generation (or kill it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from node_agent.domain.long_gaps import LongGap, LongGaps
from node_agent.domain.progress_limit import ProgressLimit, ProgressPolicy, during_pause, limit_of
from node_agent.domain.step_times import SAMPLES_MAX, StepTimes, TrainingPhase
from training_topology.identity import Rank

REGIME_STEPS = 3
"""So many long steps in a row are the new pace (longer sequences, more ranks), not three pauses."""
FREQUENT_PAUSES = 4
"""So many unexpected pauses within SAMPLES_MAX steps are part of the job's pace, irregular as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFinished:
    """The node as a whole finished a step."""

    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBegan:
    """A rank declared a phase."""

    rank: Rank
    phase: TrainingPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEnded:
    """A rank declared its phase over."""

    rank: Rank


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseRecognised:
    """Nobody declared a phase, but stacks show that the gang is in one."""

    phase: TrainingPhase


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkersRestarted:
    """A new generation starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLost:
    """The agent itself did not run for so long (suspended machine, stopped agent): it cannot say what others did."""

    lost_s: float


WatchEvent = StepFinished | PhaseBegan | PhaseEnded | PhaseRecognised | WorkersRestarted | TimeLost


class Pace(StrEnum):
    """Where the gang is relative to its limits."""

    ON_TIME = "on_time"
    LATE = "late"
    OVERDUE = "overdue"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressView:
    """What a look at the clock says.

    Attributes:
        declared: whether a rank declared the phase; False when it is learned or recognised.
        last_step: None before the first.
    """

    pace: Pace
    age_s: float
    limit: ProgressLimit
    declared: bool
    last_step: int | None

    @property
    def sentence(self) -> str:
        """How long there was no progress, and how long that may be."""
        after_what = "since the start" if self.last_step is None else f"after step {self.last_step}"
        return f"no progress for {self.age_s:.1f} s {after_what}; the limit is {self.limit.sentence}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressWatch:
    """What is known about the progress of the node's ranks.

    Attributes:
        since_s: of the last mark of progress, or of the start of the generation or phase when that is later.
        last_step: None until the generation finished one.
        declared: ranks in a declared phase, in the order in which they began; the latest rules.
        declared_s: since when there is any.
        recognised: a phase that stacks show; until the next step.
        long_row_s: long steps in a row, up to now.
    """

    since_s: float
    last_step: int | None = None
    declared: Mapping[Rank, TrainingPhase] = field(default_factory=dict)
    declared_s: float = 0.0
    recognised: TrainingPhase | None = None
    times: Mapping[TrainingPhase, StepTimes] = field(default_factory=dict)
    gaps: LongGaps = field(default_factory=LongGaps)
    long_row_s: tuple[float, ...] = ()

    @property
    def phase(self) -> TrainingPhase:
        """Declared beats recognised beats what follows from the steps."""
        if self.declared:
            return next(reversed(tuple(self.declared.values())))
        if self.last_step is None:
            return TrainingPhase.FIRST_STEP
        return self.recognised or TrainingPhase.STEADY

    def times_of(self, phase: TrainingPhase) -> StepTimes:
        """Times of a phase; empty when none is known."""
        return self.times.get(phase) or StepTimes()


def after(watch: ProgressWatch, event: WatchEvent, *, now_s: float, policy: ProgressPolicy) -> ProgressWatch:
    """Take note of an event."""
    match event:
        case StepFinished():
            return _after_step(watch, event.step, now_s, policy)
        case PhaseBegan():
            # Taken out first: the order of the mapping says who began last.
            others = {rank: phase for rank, phase in watch.declared.items() if rank != event.rank}
            declared_s = watch.declared_s if others else now_s
            declared = {**others, event.rank: event.phase}
            return replace(watch, since_s=now_s, declared=declared, declared_s=declared_s, recognised=None)
        case PhaseEnded():
            return _after_phase(watch, event.rank, now_s)
        case PhaseRecognised():
            return watch if watch.declared else replace(watch, recognised=event.phase)
        case WorkersRestarted():
            return ProgressWatch(since_s=now_s, times=watch.times, gaps=watch.gaps)
        case TimeLost():
            lost_s = max(event.lost_s, 0.0)
            return replace(watch, since_s=watch.since_s + lost_s, declared_s=watch.declared_s + lost_s)


def look(watch: ProgressWatch, *, now_s: float, policy: ProgressPolicy) -> ProgressView:
    """Is the gang late? Cheap while it is not."""
    age_s = max(now_s - watch.since_s, 0.0)
    limit = limit_of(watch.phase, watch.times_of(watch.phase), policy=policy)
    if age_s >= limit.late_s:
        limit = _with_pause(watch, limit, policy)
    pace = Pace.OVERDUE if age_s >= limit.overdue_s else Pace.LATE if age_s >= limit.late_s else Pace.ON_TIME
    return ProgressView(pace=pace, age_s=age_s, limit=limit, declared=bool(watch.declared), last_step=watch.last_step)


def next_look_s(watch: ProgressWatch, *, now_s: float, policy: ProgressPolicy) -> float:
    """When `look` would say something new if no event comes before: one exact timer instead of polling."""
    view = look(watch, now_s=now_s, policy=policy)
    match view.pace:
        case Pace.ON_TIME:
            return watch.since_s + view.limit.late_s
        case Pace.LATE | Pace.OVERDUE:
            return watch.since_s + view.limit.overdue_s


def _with_pause(watch: ProgressWatch, limit: ProgressLimit, policy: ProgressPolicy) -> ProgressLimit:
    if watch.declared or watch.last_step is None:
        return limit
    expected_s = watch.gaps.expected_s(watch.last_step)
    return limit if expected_s is None else during_pause(limit, expected_s, policy=policy)


def _after_phase(watch: ProgressWatch, rank: Rank, now_s: float) -> ProgressWatch:
    if rank not in watch.declared:
        return watch
    declared = {other: phase for other, phase in watch.declared.items() if other != rank}
    if declared:
        return replace(watch, since_s=now_s, declared=declared)
    times = _learned(watch.times, watch.phase, now_s - watch.declared_s)
    return replace(watch, since_s=now_s, declared=declared, times=times)


def _after_step(watch: ProgressWatch, step: int, now_s: float, policy: ProgressPolicy) -> ProgressWatch:
    duration_s = now_s - watch.since_s
    if watch.declared:
        # Steps of an evaluation, or of ranks that the phase does not hold: progress, but no pace to learn from.
        return replace(watch, since_s=now_s, last_step=step)
    phase = watch.phase
    if phase is TrainingPhase.STEADY and duration_s >= limit_of(phase, watch.times_of(phase), policy=policy).late_s:
        return _after_pause(watch, step, now_s)
    gaps = watch.gaps
    if watch.recognised is not None and watch.last_step is not None:
        gaps = gaps.after(LongGap(after_step=watch.last_step, duration_s=duration_s))
    return ProgressWatch(
        since_s=now_s,
        last_step=step,
        times=_learned(watch.times, phase, duration_s),
        gaps=gaps,
    )


def _after_pause(watch: ProgressWatch, step: int, now_s: float) -> ProgressWatch:
    """A step that took longer than steps may: a pause, or no longer one."""
    assert watch.last_step is not None, "a phase after the first step has a last step"
    duration_s = now_s - watch.since_s
    row_s = (*watch.long_row_s, duration_s)
    if len(row_s) >= REGIME_STEPS:
        return ProgressWatch(since_s=now_s, last_step=step, times=_anew(watch.times, row_s))
    gaps = watch.gaps.after(LongGap(after_step=watch.last_step, duration_s=duration_s))
    near = sum(gap.after_step > step - SAMPLES_MAX for gap in gaps.recent)
    times = watch.times
    if near >= FREQUENT_PAUSES and watch.gaps.expected_s(watch.last_step) is None:
        times = _learned(times, TrainingPhase.STEADY, duration_s)
    return ProgressWatch(since_s=now_s, last_step=step, times=times, gaps=gaps, long_row_s=row_s)


def _learned(
    times: Mapping[TrainingPhase, StepTimes], phase: TrainingPhase, duration_s: float
) -> Mapping[TrainingPhase, StepTimes]:
    return {**times, phase: (times.get(phase) or StepTimes()).after(duration_s)}


def _anew(
    times: Mapping[TrainingPhase, StepTimes], durations_s: tuple[float, ...]
) -> Mapping[TrainingPhase, StepTimes]:
    steady = StepTimes()
    for duration_s in durations_s:
        steady = steady.after(duration_s)
    return {**times, TrainingPhase.STEADY: steady}
