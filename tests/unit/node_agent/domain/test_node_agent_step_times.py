"""Median and spread of durations: what one slow step must not move, and what must not enter."""

from __future__ import annotations

import math

import pytest

from node_agent.domain.step_times import REFRESH_EVERY, SAMPLES_MAX, StepTimes, summarise


def taken(*durations_s: float) -> StepTimes:
    times = StepTimes()
    for duration_s in durations_s:
        times = times.after(duration_s)
    return times


def test_median_spread_and_longest() -> None:
    summary = summarise([0.05, 0.04, 0.06, 0.05, 9.0])
    assert (summary.count, summary.median_s, summary.longest_s) == (5, 0.05, 9.0)
    assert summary.spread_s == pytest.approx(1.4826 * 0.01)


def test_of_nothing_there_is_no_median() -> None:
    with pytest.raises(ValueError, match="no durations"):
        summarise([])
    assert StepTimes().summary is None


def test_one_pause_in_fifty_moves_neither_median_nor_spread() -> None:
    steps = [0.05 + 0.001 * (index % 5) for index in range(96)]
    calm, disturbed = taken(*steps).summary, taken(*steps[:-2], 10.0, 10.0).summary
    assert calm is not None
    assert disturbed is not None
    assert disturbed.median_s == pytest.approx(calm.median_s, rel=0.03)
    assert disturbed.spread_s < 2 * calm.spread_s


def test_memory_is_bounded_and_old_times_are_forgotten() -> None:
    times = taken(*[1.0] * 500, *[2.0] * SAMPLES_MAX)
    assert len(times.recent_s) == SAMPLES_MAX
    assert times.count == 500 + SAMPLES_MAX
    assert times.summary is not None
    assert times.summary.median_s == 2.0


def test_the_summary_is_never_older_than_a_few_times() -> None:
    times = taken(*[1.0] * 40)
    for _ in range(REFRESH_EVERY):
        times = times.after(7.0)
    assert times.summary is not None
    assert times.summary.longest_s == 7.0


def test_the_first_times_count_at_once() -> None:
    summary = taken(20.0).summary
    assert summary is not None
    assert (summary.count, summary.median_s, summary.spread_s) == (1, 20.0, 0.0)


@pytest.mark.parametrize("wrong", [-0.1, math.nan, math.inf])
def test_what_is_no_duration_is_counted_and_left_out(wrong: float) -> None:
    times = taken(1.0, wrong, 3.0)
    assert (times.recent_s, times.count, times.unusable) == ((1.0, 3.0), 2, 1)
