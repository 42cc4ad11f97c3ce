"""Two pauses at equal distance predict the third, and nothing else."""

from __future__ import annotations

import pytest

from node_agent.domain.long_gaps import GAPS_MAX, LongGap, LongGaps


def remembered(*gaps: tuple[int, float]) -> LongGaps:
    known = LongGaps()
    for after_step, duration_s in gaps:
        known = known.after(LongGap(after_step=after_step, duration_s=duration_s))
    return known


def test_a_series_goes_on() -> None:
    gaps = remembered((1000, 10.0), (2000, 12.0))
    assert gaps.expected_s(3000) == 12.0


@pytest.mark.parametrize("step", [0, 1000, 2000, 2500, 2979, 3021, 4000])
def test_other_steps_are_not_expected(step: int) -> None:
    assert remembered((1000, 10.0), (2000, 10.0)).expected_s(step) is None


def test_steps_reported_in_bundles_are_near_enough() -> None:
    assert remembered((1000, 10.0), (2003, 10.0)).expected_s(2999) == 10.0


def test_a_short_series_is_exact_to_a_step() -> None:
    gaps = remembered((10, 2.0), (20, 2.0))
    assert [step for step in range(21, 40) if gaps.expected_s(step)] == [29, 30, 31]


def test_one_pause_predicts_nothing() -> None:
    gaps = remembered((1000, 10.0))
    assert [step for step in range(5000) if gaps.expected_s(step)] == []


def test_two_series_side_by_side() -> None:
    gaps = remembered((700, 5.0), (1000, 30.0), (1400, 5.0), (2000, 30.0))
    assert gaps.expected_s(2100) == 5.0
    assert gaps.expected_s(3000) == 30.0


def test_memory_is_bounded() -> None:
    gaps = remembered(*[(index, 1.0) for index in range(100)])
    assert len(gaps.recent) == GAPS_MAX


def test_going_back_to_a_checkpoint_keeps_what_lies_before_it() -> None:
    gaps = remembered((1000, 10.0), (2000, 10.0), (3000, 10.0), (2000, 11.0))
    assert [gap.after_step for gap in gaps.recent] == [1000, 2000]
    assert gaps.expected_s(3000) == 11.0
