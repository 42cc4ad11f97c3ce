"""Seconds of a step, by one node's own clock."""

from datetime import UTC, datetime, timedelta

from fault_contracts.agent import StepReported
from recovery_planner.domain.pace import WINDOW_STEPS, Pace, paced

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def told(step: int, at_s: float, *, node: str = "a", version: int = 1) -> StepReported:
    at = NOON + timedelta(seconds=at_s)
    return StepReported(node_id=node, job_id="j", topology_version=version, step=step, first=False, reported_at=at)


def walk(*reports: StepReported) -> Pace:
    pace = None
    for report in reports:
        pace = paced(pace, report)
    assert pace is not None
    return pace


def test_one_step_has_no_pace_and_two_have() -> None:
    assert walk(told(10, 0)).step_s is None
    assert walk(told(10, 0), told(14, 2)).step_s == 0.5


def test_other_nodes_copies_and_older_generations_change_nothing() -> None:
    pace = walk(told(10, 0), told(14, 2))
    assert paced(pace, told(14, 3)) is pace
    assert paced(pace, told(90, 3, node="b")) is pace
    assert paced(walk(told(3, 0, version=2)), told(14, 2)) == walk(told(3, 0, version=2))


def test_a_clock_that_went_back_says_nothing() -> None:
    pace = walk(told(10, 100), told(14, 102))
    assert paced(pace, told(15, 50)) is pace


def test_until_the_next_generation_has_a_pace_the_one_before_speaks() -> None:
    pace = walk(told(10, 0), told(14, 2), told(12, 60, version=2))
    assert pace.step_s == 0.5
    assert paced(pace, told(13, 61, version=2)).step_s == 1.0


def test_the_best_window_is_kept_over_generations_and_a_short_one_is_none() -> None:
    fast = walk(told(0, 0), told(100, 30))
    assert fast.best_s == 0.3
    assert paced(fast, told(130, 60)).best_s == 0.3, "a slower window is not the best one"
    assert walk(told(0, 0), told(100, 30), told(5, 90, version=2), told(6, 91, version=2)).best_s == 0.3
    assert walk(told(0, 0), told(20, 2)).best_s is None
    assert walk(told(0, 0), told(WINDOW_STEPS - 1, 40)).best_s is None, "long steps need a longer window"
