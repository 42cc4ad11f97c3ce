"""The clock of progress: what restarts it, which limit holds, what is learned, and what a restart forgets."""

from __future__ import annotations

import pytest

from node_agent.domain.progress_limit import LimitRule, ProgressPolicy
from node_agent.domain.progress_watch import (
    Pace,
    PhaseBegan,
    PhaseEnded,
    PhaseRecognised,
    ProgressView,
    ProgressWatch,
    StepFinished,
    TimeLost,
    WatchEvent,
    WorkersRestarted,
    after,
    look,
    next_look_s,
)
from node_agent.domain.step_times import TrainingPhase
from training_topology.identity import Rank

POLICY = ProgressPolicy()


class Run:
    """A watch and its clock."""

    def __init__(self) -> None:
        self.now_s = 1_000.0
        self.watch = ProgressWatch(since_s=self.now_s)

    def tell(self, event: WatchEvent, after_s: float = 0.0) -> Run:
        self.now_s += after_s
        self.watch = after(self.watch, event, now_s=self.now_s, policy=POLICY)
        return self

    def steps(self, *durations_s: float) -> Run:
        for duration_s in durations_s:
            step = 1 if self.watch.last_step is None else self.watch.last_step + 1
            self.tell(StepFinished(step=step), duration_s)
        return self

    def look_after(self, age_s: float) -> ProgressView:
        return look(self.watch, now_s=self.now_s + age_s, policy=POLICY)


def trained() -> Run:
    """20 s for the first step, then 49 steps of 50 ms."""
    return Run().steps(20.0, *[0.05] * 49)


def test_a_stop_is_late_after_a_second() -> None:
    run = trained()
    assert run.look_after(0.99).pace is Pace.ON_TIME
    view = run.look_after(1.01)
    assert view.pace is Pace.LATE
    assert view.sentence.startswith("no progress for 1.0 s after step 50; the limit is 1 s, the floor; median 0.05 s")


def test_the_first_step_has_its_own_limit_which_is_learned_over_restarts() -> None:
    run = Run()
    assert run.look_after(299.0).pace is Pace.ON_TIME
    assert run.look_after(301.0).pace is Pace.LATE
    run.steps(20.0, 0.05).tell(WorkersRestarted())
    assert run.watch.phase is TrainingPhase.FIRST_STEP
    assert run.look_after(99.0).pace is Pace.ON_TIME
    assert run.look_after(101.0).pace is Pace.LATE


def test_the_first_step_teaches_nothing_about_the_others() -> None:
    assert trained().watch.times_of(TrainingPhase.STEADY).count == 49


def test_a_declared_phase_has_its_limit_and_not_that_of_steps() -> None:
    run = trained().tell(PhaseBegan(rank=Rank(0), phase=TrainingPhase.CHECKPOINT), 0.01)
    view = run.look_after(10.0)
    assert (view.pace, view.declared, view.limit.phase) == (Pace.ON_TIME, True, TrainingPhase.CHECKPOINT)
    assert run.look_after(301.0).pace is Pace.LATE


def test_a_declared_phase_is_learned_and_does_not_spoil_the_steps() -> None:
    run = trained()
    run.tell(PhaseBegan(rank=Rank(0), phase=TrainingPhase.CHECKPOINT)).tell(PhaseEnded(rank=Rank(0)), 30.0)
    assert run.watch.times_of(TrainingPhase.CHECKPOINT).recent_s == (30.0,)
    assert run.look_after(1.01).pace is Pace.LATE
    run.steps(0.05).tell(PhaseBegan(rank=Rank(0), phase=TrainingPhase.CHECKPOINT))
    assert run.look_after(149.0).pace is Pace.ON_TIME
    assert run.look_after(151.0).pace is Pace.LATE


def test_a_phase_lasts_until_the_last_rank_has_ended_it() -> None:
    run = trained()
    run.tell(PhaseBegan(rank=Rank(0), phase=TrainingPhase.EVALUATION))
    run.tell(PhaseBegan(rank=Rank(1), phase=TrainingPhase.EVALUATION), 1.0).tell(PhaseEnded(rank=Rank(0)), 9.0)
    assert run.watch.phase is TrainingPhase.EVALUATION
    run.tell(PhaseEnded(rank=Rank(1)), 2.0)
    assert run.watch.phase is TrainingPhase.STEADY
    assert run.watch.times_of(TrainingPhase.EVALUATION).recent_s == (12.0,)


def test_the_phase_that_began_last_rules_also_when_a_rank_changes_its_mind() -> None:
    run = trained()
    run.tell(PhaseBegan(rank=Rank(0), phase=TrainingPhase.EVALUATION))
    run.tell(PhaseBegan(rank=Rank(1), phase=TrainingPhase.EVALUATION))
    run.tell(PhaseBegan(rank=Rank(0), phase=TrainingPhase.CHECKPOINT))
    assert run.watch.phase is TrainingPhase.CHECKPOINT


def test_the_end_of_a_phase_that_never_began_changes_nothing() -> None:
    run = trained()
    before = run.watch
    assert run.tell(PhaseEnded(rank=Rank(3)), 5.0).watch == before


def test_a_dangling_phase_does_not_outlive_its_generation() -> None:
    run = trained().tell(PhaseBegan(rank=Rank(0), phase=TrainingPhase.CHECKPOINT))
    run.tell(WorkersRestarted(), 500.0)
    assert run.look_after(0.0).limit.phase is TrainingPhase.FIRST_STEP
    assert run.look_after(0.0).age_s == 0.0
    run.steps(20.0, *[0.05] * 3)
    assert run.watch.phase is TrainingPhase.STEADY
    assert run.look_after(1.5).pace is Pace.LATE, "the pace is known from the generation before"


def test_a_recognised_phase_widens_the_limit_until_the_next_step() -> None:
    run = trained()
    run.tell(PhaseRecognised(phase=TrainingPhase.EVALUATION), 1.1)
    assert run.look_after(20.0).limit.phase is TrainingPhase.EVALUATION
    assert run.look_after(20.0).pace is Pace.ON_TIME
    run.steps(8.9)
    assert run.watch.times_of(TrainingPhase.EVALUATION).recent_s == pytest.approx((10.0,))
    assert run.look_after(1.5).pace is Pace.LATE


def test_a_pause_is_expected_at_its_third_time_and_only_there() -> None:
    run = Run().steps(20.0, *[0.05] * 999)
    for _ in range(2):
        run.steps(10.0, *[0.05] * 999)
    assert run.watch.last_step == 3_000
    view = run.look_after(25.0)
    assert (view.pace, view.limit.rule) == (Pace.ON_TIME, LimitRule.EXPECTED_PAUSE)
    assert run.look_after(31.0).pace is Pace.LATE
    run.steps(10.0, *[0.05] * 400)
    assert run.look_after(1.1).pace is Pace.LATE, "in between the limit is as short as ever"


def test_a_new_pace_is_believed_after_three_steps() -> None:
    run = trained().steps(5.0, 5.0, 5.0)
    assert run.look_after(10.0).pace is Pace.ON_TIME
    run.steps(*[5.0] * 10)
    assert run.look_after(24.0).pace is Pace.ON_TIME
    assert run.look_after(26.0).pace is Pace.LATE


def test_frequent_irregular_pauses_become_part_of_the_pace() -> None:
    run = trained()
    for steps in (10, 17, 5, 13, 22):
        run.steps(2.0, *[0.05] * steps)
    assert run.look_after(2.5).pace is Pace.ON_TIME
    assert run.look_after(3.5).pace is Pace.LATE


def test_frequent_pauses_that_are_regular_do_not() -> None:
    run = trained()
    for _ in range(8):
        run.steps(10.0, *[0.05] * 19)
    run.steps(10.0, *[0.05] * 9)
    assert run.look_after(1.1).pace is Pace.LATE


def test_a_recognised_pause_is_remembered_by_its_place_too() -> None:
    run = Run().steps(20.0, *[0.05] * 999)
    for _ in range(2):
        run.tell(PhaseRecognised(phase=TrainingPhase.EVALUATION), 1.1).steps(8.9, *[0.05] * 999)
    assert run.look_after(25.0).limit.rule is LimitRule.EXPECTED_PAUSE


def test_a_single_pause_does_not_widen_the_limit() -> None:
    run = trained().steps(10.0, *[0.05] * 3)
    assert run.look_after(1.1).pace is Pace.LATE


def test_time_in_which_the_agent_did_not_run_is_not_held_against_the_ranks() -> None:
    run = trained()
    run.tell(TimeLost(lost_s=60.0), 60.5)
    view = run.look_after(0.0)
    assert (view.pace, view.age_s) == (Pace.ON_TIME, pytest.approx(0.5))


def test_without_end_is_overdue() -> None:
    assert trained().look_after(1_799.0).pace is Pace.LATE
    assert trained().look_after(1_801.0).pace is Pace.OVERDUE


def test_steps_in_a_declared_phase_are_progress_and_teach_no_pace() -> None:
    run = trained().tell(PhaseBegan(rank=Rank(0), phase=TrainingPhase.EVALUATION))
    known = run.watch.times_of(TrainingPhase.STEADY)
    run.steps(40.0, 40.0)
    assert run.look_after(0.0).age_s == 0.0
    assert run.watch.times_of(TrainingPhase.STEADY) == known


def test_one_timer_is_enough() -> None:
    run = trained()
    due_s = next_look_s(run.watch, now_s=run.now_s, policy=POLICY)
    assert due_s == pytest.approx(run.now_s + 1.0)
    overdue_s = next_look_s(run.watch, now_s=due_s, policy=POLICY)
    assert overdue_s == pytest.approx(run.now_s + 1_800.0)
    assert look(run.watch, now_s=overdue_s, policy=POLICY).pace is Pace.OVERDUE
