"""Windows of own-work times: when they are full, what they keep, and who is missing."""

from __future__ import annotations

import math

import pytest

from node_agent.domain.step_window import SAMPLES_MAX, RankSamples, StepWindow, WindowPolicy, own_work_of_arrivals
from training_topology.identity import Rank

POLICY = WindowPolicy()


def filled(*counts: int, opened_s: float = 0.0) -> StepWindow:
    window = StepWindow(opened_s=opened_s)
    for rank, count in enumerate(counts):
        for _ in range(count):
            window = window.after(Rank(rank), 0.05 * (rank + 1))
    return window


def test_a_window_closes_when_time_and_samples_are_there() -> None:
    window = filled(10, 10)
    assert window.close(now_s=9.9, policy=POLICY) == (window, None)
    fresh, times = window.close(now_s=10.0, policy=POLICY)
    assert times is not None
    assert {rank: summary.median_s for rank, summary in times.items()} == {0: 0.05, 1: 0.1}
    assert fresh == StepWindow(opened_s=10.0)


def test_it_waits_for_a_rank_with_few_samples_but_not_for_ever() -> None:
    window = filled(100, 9)
    assert window.close(now_s=599.0, policy=POLICY)[1] is None
    times = window.close(now_s=600.0, policy=POLICY)[1]
    assert times is not None
    assert list(times) == [0]


def test_an_empty_window_closes_empty() -> None:
    assert StepWindow(opened_s=0.0).close(now_s=20.0, policy=POLICY)[1] is None
    assert StepWindow(opened_s=0.0).close(now_s=600.0, policy=POLICY)[1] == {}


def test_memory_is_bounded_and_spread_over_the_window() -> None:
    samples = RankSamples()
    for index in range(10_000):
        samples = samples.after(float(index))
    assert samples.seen == 10_000
    assert len(samples.durations_s) <= SAMPLES_MAX
    assert samples.durations_s == tuple(float(index) for index in range(0, 10_000, samples.stride))


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
def test_what_is_no_time_is_counted(wrong: float) -> None:
    window = filled(10).after(Rank(0), wrong)
    assert window.unusable == 1
    assert window.ranks[Rank(0)].seen == 10


def test_own_work_from_arrivals_at_the_collective() -> None:
    before = {Rank(0): 1.00, Rank(1): 1.20}
    now = {Rank(0): 1.30, Rank(1): 1.50, Rank(2): 1.25}
    own = own_work_of_arrivals(before, now)
    assert own == {0: pytest.approx(0.10), 1: pytest.approx(0.30), 2: pytest.approx(0.05)}


def test_arrivals_without_a_step_before_or_out_of_order_say_nothing() -> None:
    assert own_work_of_arrivals({}, {Rank(0): 1.0}) == {}
    assert own_work_of_arrivals({Rank(0): 2.0}, {Rank(0): 1.0}) == {}
