"""The limit follows the job's own times, between floor and ceiling, and says how it came about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from node_agent.domain.progress_limit import LimitRule, PhaseBounds, ProgressPolicy, during_pause, limit_of
from node_agent.domain.step_times import StepTimes, TrainingPhase

POLICY = ProgressPolicy()


def taken(*durations_s: float) -> StepTimes:
    times = StepTimes()
    for duration_s in durations_s:
        times = times.after(duration_s)
    return times


def test_fast_steps_have_the_floor() -> None:
    limit = limit_of(TrainingPhase.STEADY, taken(*[0.05] * 20), policy=POLICY)
    assert (limit.late_s, limit.rule) == (1.0, LimitRule.FLOOR)
    assert "median 0.05 s" in limit.sentence


def test_slow_steps_have_five_medians() -> None:
    limit = limit_of(TrainingPhase.STEADY, taken(*[4.0] * 20), policy=POLICY)
    assert (limit.late_s, limit.rule) == (20.0, LimitRule.LEARNED)


def test_restless_steps_have_ten_spreads() -> None:
    times = taken(*[1.0, 3.0] * 10)  # median 2, median absolute deviation 1
    limit = limit_of(TrainingPhase.STEADY, times, policy=POLICY)
    assert limit.late_s == pytest.approx(2 + 10 * 1.4826)


def test_a_long_step_that_was_healthy_is_allowed_again() -> None:
    limit = limit_of(TrainingPhase.STEADY, taken(*[0.05] * 19, 3.0), policy=POLICY)
    assert limit.late_s == 4.5


def test_few_steps_are_not_learned_from() -> None:
    limit = limit_of(TrainingPhase.STEADY, taken(*[0.05] * 7), policy=POLICY)
    assert (limit.late_s, limit.rule) == (30.0, LimitRule.UNLEARNED)


def test_the_first_step_is_generous_until_one_is_known() -> None:
    assert limit_of(TrainingPhase.FIRST_STEP, StepTimes(), policy=POLICY).late_s == 300.0
    assert limit_of(TrainingPhase.FIRST_STEP, taken(20.0), policy=POLICY).late_s == 100.0


def test_the_ceiling_holds() -> None:
    limit = limit_of(TrainingPhase.STEADY, taken(*[900.0] * 10), policy=POLICY)
    assert (limit.late_s, limit.rule, limit.overdue_s) == (1800.0, LimitRule.CEILING, 1800.0)


@pytest.mark.parametrize("phase", list(TrainingPhase))
def test_a_limit_is_always_within_its_bounds(phase: TrainingPhase) -> None:
    bounds = POLICY.bounds_of(phase)
    for duration_s in (0.0, 0.05, 1.0, 20.0, 1e5):
        limit = limit_of(phase, taken(*[duration_s] * 10), policy=POLICY)
        assert bounds.floor_s <= limit.late_s <= limit.overdue_s == bounds.ceiling_s


def test_an_expected_pause_widens_the_limit_and_never_narrows_it() -> None:
    limit = limit_of(TrainingPhase.STEADY, taken(*[0.05] * 20), policy=POLICY)
    wide = during_pause(limit, 10.0, policy=POLICY)
    assert (wide.late_s, wide.rule) == (30.0, LimitRule.EXPECTED_PAUSE)
    assert during_pause(limit, 0.1, policy=POLICY) == limit
    assert during_pause(limit, 5_000.0, policy=POLICY).late_s == limit.overdue_s


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"floor_s": 0.0}, "limits must rise"),
        ({"floor_s": 40.0}, "limits must rise"),
        ({"ceiling_s": 20.0}, "limits must rise"),
        ({"samples_min": 0}, "samples_min"),
    ],
)
def test_bounds_that_contradict_are_refused(change: dict[str, float], message: str) -> None:
    bounds = PhaseBounds(floor_s=1.0, unlearned_s=30.0, samples_min=8, ceiling_s=1800.0)
    with pytest.raises(ValueError, match=message):
        replace(bounds, **change)  # type: ignore[arg-type]
