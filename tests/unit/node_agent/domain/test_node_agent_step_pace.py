"""The newest step and the time of a step, of the present generation only."""

from node_agent.domain.step_pace import STEPS_KEPT, StepPace


def pace_of(*marks: tuple[float, int], version: int = 1) -> StepPace:
    pace = StepPace()
    for at_s, step in marks:
        pace = pace.after(step, topology_version=version, at_s=at_s)
    return pace


def test_before_the_first_step_nothing_is_known_and_after_it_no_duration() -> None:
    assert (StepPace().newest, StepPace().step_s) == (None, None)
    assert (pace_of((1.0, 5)).newest, pace_of((1.0, 5)).step_s) == (5, None)


def test_ranks_that_report_the_same_step_count_once_and_steps_may_be_left_out() -> None:
    pace = pace_of((1.0, 5), (1.1, 5), (2.0, 6), (4.0, 8))
    assert (pace.newest, pace.step_s) == (8, 1.0)


def test_a_rank_behind_the_others_does_not_take_the_newest_back() -> None:
    assert pace_of((1.0, 5), (2.0, 6), (2.5, 5)).newest == 6


def test_it_follows_a_job_that_becomes_slower() -> None:
    fast = [(0.1 * n, n) for n in range(100)]
    slow = [(10.0 + 2.0 * n, 100 + n) for n in range(STEPS_KEPT)]
    assert pace_of(*fast, *slow).step_s == 2.0


def test_another_generation_begins_anew_also_behind_the_old_one() -> None:
    pace = pace_of((1.0, 50)).after(11, topology_version=2, at_s=9.0)
    assert (pace.newest, pace.step_s, pace.topology_version) == (11, None, 2)
