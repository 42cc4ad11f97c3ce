"""The same fault right after a load speaks against the checkpoint: the one before it is tried, within its limit."""

from datetime import timedelta

import pytest
from planner_story import JOB, NOON, Story

from fault_contracts.agent import ExitStatus, OomKill, RestartAsked, WorkerError, WorkerExited
from fault_contracts.checkpoints import CheckpointRef
from fault_contracts.commands import StartWorkers
from fault_contracts.faults import Action, Attribution
from fault_contracts.policy import CheckpointPolicy, PolicyMode, RecoveryPolicy
from fault_contracts.recovery import JobEnded, JobOutcome, RecoveryPlanned
from fault_contracts.recovery_level import RecoveryLevel
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.step_back import exit_fingerprint

NAN = "loss is nan @ train.py:7"


def job(step_back_max: int = 2, *, saved: tuple[int, ...] = (10, 20, 30), **policy: object) -> Story:
    """Two nodes with two ranks each that train to step 31."""
    limits = CheckpointPolicy(step_back_max=step_back_max, same_fault_within_steps=3, same_fault_within_s=60)
    recovery = RecoveryPolicy.model_validate({"checkpoint": limits, **policy})
    story = Story(recovery=recovery, restarts_max=10).run("a", "b")
    train(story, 31, saved)
    return story


def train(story: Story, upto: int, saved: tuple[int, ...] = ()) -> None:
    for node in story.gang.nodes:
        story.make_step(node, upto)
    for step in saved:
        story.checkpoint(step, 0, 1, 2, 3)


def fail(story: Story, raises: str = NAN, **verdict: object) -> None:
    """A rank raises, and the verdict comes."""
    version = story.gang.table.topology_version
    story.die("a", 0, raises=raises)
    story.stop_all()
    story.classify(**{"cause": "python_exception", "fault_id": f"fault-{version}", **verdict})  # type: ignore[arg-type]


def began_at(story: Story) -> int | None:
    checkpoint = story.last(StartWorkers).checkpoint
    return None if checkpoint is None else checkpoint.step


def test_the_same_exception_right_after_the_load_steps_back_one_checkpoint() -> None:
    story = job()
    fail(story)
    assert began_at(story) == 30
    assert story.last(RecoveryPlanned).checkpoint_stepped_over is None
    story.start_all()
    fail(story)
    plan = story.last(RecoveryPlanned)
    assert (began_at(story), plan.checkpoint_step, plan.checkpoint_stepped_over) == (20, 20, 30)
    reason = next(each for each in plan.reasons if each.rule_id == "checkpoint.step_back")
    assert "step 30 is stepped over, 1 of 2" in reason.sentence
    assert "before the first step after step 30 was loaded" in reason.sentence
    assert "step 20 is the largest before step 30 that all 4 required ranks confirmed" in reason.sentence
    told = story.last(StartWorkers).reason
    assert told is not None
    assert told.sentence.startswith("the checkpoint of step 30 is stepped over")


def test_what_was_stepped_over_is_not_chosen_again_but_the_same_step_saved_anew_is() -> None:
    story = job()
    fail(story)
    story.start_all()
    fail(story)
    assert began_at(story) == 20
    story.checkpoint(30, 0, 1, 2, 3, version=1)
    story.start_all()
    train(story, 26)
    fail(story, "something else")
    assert began_at(story) == 20, "step 30 of version 1 was stepped over"
    story.start_all()
    train(story, 35, (30,))
    fail(story, "a third thing")
    assert began_at(story) == 30, "version 4 has saved a new one"
    assert story.gang.trial.stepped_over == (30,)


def test_another_fault_after_the_load_says_nothing() -> None:
    story = job()
    fail(story)
    story.start_all()
    fail(story, "IndexError @ data.py:3")
    assert began_at(story) == 30


@pytest.mark.parametrize(("steps", "begins_at"), [(33, 20), (34, 30)])
def test_the_same_fault_some_steps_later_says_nothing(steps: int, begins_at: int) -> None:
    story = job()
    fail(story)
    story.start_all()
    train(story, steps)
    fail(story)
    assert began_at(story) == begins_at


@pytest.mark.parametrize(("seconds", "begins_at"), [(59, 20), (61, 30)])
def test_where_no_steps_are_told_the_time_counts(seconds: float, begins_at: int) -> None:
    recovery = RecoveryPolicy(checkpoint=CheckpointPolicy(step_back_max=1, same_fault_within_s=60))
    story = Story(recovery=recovery).run("a", "b")
    for step in (20, 30):
        story.checkpoint(step, 0, 1, 2, 3)
    fail(story)
    story.start_all()
    story.wait(seconds)
    fail(story)
    assert began_at(story) == begins_at


def test_a_verdict_that_a_retry_cannot_help_is_not_the_end_while_an_older_checkpoint_is_there() -> None:
    story = job(1)
    story.die("b", 2, code=1)
    story.stop_all()
    story.classify()
    story.start_all()
    fail(story, action=Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER, cause="repeated_exception")
    assert story.gang.phase is Phase.STARTING
    assert began_at(story) == 20
    assert story.last(RecoveryPlanned).level is RecoveryLevel.PROCESS
    story.start_all()
    fail(story, action=Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER, cause="repeated_exception")
    ended = story.last(JobEnded)
    assert ended.outcome is JobOutcome.FAILED_USER
    assert "checkpoint.no_step_back" in story.rules, "its limit is used"


def test_a_users_fault_later_on_ends_the_job_as_ever() -> None:
    story = job()
    fail(story)
    story.start_all()
    train(story, 60)
    fail(story, action=Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER)
    assert story.last(JobEnded).outcome is JobOutcome.FAILED_USER


def test_without_the_policy_nothing_is_stepped_over() -> None:
    story = job(0)
    fail(story)
    story.start_all()
    fail(story)
    assert began_at(story) == 30
    story.start_all()
    fail(story, action=Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER)
    assert story.last(JobEnded).outcome is JobOutcome.FAILED_USER
    assert "checkpoint.no_step_back" not in story.rules


def test_with_no_older_checkpoint_it_stays_and_says_so() -> None:
    story = job(saved=(30,))
    fail(story)
    story.start_all()
    fail(story)
    assert began_at(story) == 30, "from scratch would lose everything; nobody asked for that"
    story.start_all()
    fail(story, action=Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER)
    assert story.last(JobEnded).outcome is JobOutcome.FAILED_USER
    assert "checkpoint.no_step_back" in story.rules


def test_a_step_that_not_every_rank_confirmed_is_no_way_back() -> None:
    story = job(saved=(10, 30))
    story.checkpoint(20, 0, 1, 2)
    fail(story)
    story.start_all()
    fail(story)
    assert began_at(story) == 10


def test_a_rank_that_was_killed_from_outside_and_a_broken_machine_say_nothing_of_the_checkpoint() -> None:
    story = job()
    for number in (1, 2, 3):
        story.feed(death(story, signal=9))
        story.stop_all()
        story.classify(fault_id=f"fault-{number}")
        story.start_all()
    assert began_at(story) == 30
    for number in (4, 5):
        story.die("a", 0, raises=NAN)
        story.stop_all()
        story.classify(Action.RESTART_JOB, attribution=Attribution.HARDWARE, fault_id=f"fault-{number}")
        story.start_all()
    assert began_at(story) == 30


def test_the_rank_that_fails_first_is_what_counts_and_not_its_victims() -> None:
    story = job()
    for number in (1, 2):
        story.feed(death(story, signal=9, ago_s=1.0))
        story.die("b", 2, raises="connection closed by peer")
        story.stop_all()
        story.classify(fault_id=f"fault-{number}")
        story.start_all()
    assert began_at(story) == 30


def test_it_costs_a_restart_of_the_budget_as_every_fault_does() -> None:
    story = job()
    fail(story)
    story.start_all()
    fail(story)
    assert len(story.gang.restarts) == 2
    assert story.last(RecoveryPlanned).restarts_left == 8


def test_a_budget_that_is_used_up_is_not_overruled() -> None:
    story = job(restarts_max=1)
    fail(story)
    story.start_all()
    fail(story)
    assert story.last(JobEnded).outcome is JobOutcome.FAILED_BUDGET


def test_a_policy_that_says_never_is_not_overruled() -> None:
    story = job(causes=({"cause": "loss_divergence", "retry": "never"},))
    fail(story)
    story.start_all()
    fail(story, cause="loss_divergence", action=Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER)
    assert story.last(JobEnded).reason.rule_id == "policy.never"


def test_a_late_verdict_of_the_user_lets_the_generation_prove_itself_where_an_older_checkpoint_is_there() -> None:
    story = job(1)
    story.die("a", 0, raises=NAN)
    story.stop_all()
    story.wait_for_deadline()
    assert began_at(story) == 30
    story.classify(Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER, fault_id="late")
    assert story.gang.phase is Phase.STARTING
    assert "checkpoint.on_trial" in story.rules
    story.start_all()
    fail(story, action=Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER)
    assert began_at(story) == 20


def test_what_lay_in_the_folder_before_the_job_is_a_way_back_too() -> None:
    recovery = RecoveryPolicy(checkpoint=CheckpointPolicy(step_back_max=1))
    story = Story(recovery=recovery)
    found = {"checkpoint_found": CheckpointRef(step=5, path="/ckpt/5")}
    story.report("a", **found)  # type: ignore[arg-type]
    story.report("b")
    story.start_all()
    train(story, 31, (30,))
    fail(story)
    story.start_all()
    fail(story)
    assert began_at(story) == 5


def test_an_observing_job_steps_over_nothing() -> None:
    story = job(mode=PolicyMode.OBSERVE)
    fail(story)
    story.start_all()
    fail(story)
    assert began_at(story) == 30


def death(story: Story, *, ago_s: float = 0.0, **how: object) -> WorkerExited:
    exit_ = ExitStatus.model_validate({"rank": 0, "local_rank": 0, "pid": 9, **how})
    version = story.gang.table.topology_version
    return WorkerExited(
        node_id="a", instance_id="a/1", job_id=JOB, topology_version=version, ordinal=0, exit=exit_, ran_s=1.0,
        observed_at=story.now - timedelta(seconds=ago_s),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("how", "more", "expected"),
    [
        ({"signal": 11}, {}, "signal 11"),
        ({"signal": 9}, {}, ""),
        ({"signal": 9, "oom_kill": OomKill.YES}, {}, "oom_kill"),
        ({"exit_code": 3}, {}, "exit code 3"),
        ({}, {}, ""),
        ({"exit_code": 1}, {"error": WorkerError(type="E", fingerprint="f", source="stderr")}, "f"),
        ({}, {"restart_asked": RestartAsked.PROCESS, "process_alive": True}, ""),
    ],
)
def test_what_two_deaths_have_in_common(how: dict[str, object], more: dict[str, object], expected: str) -> None:
    exit_ = ExitStatus.model_validate({"rank": 0, "local_rank": 0, "pid": 9, **how})
    report = WorkerExited.model_validate(
        {
            "node_id": "a", "instance_id": "i", "job_id": JOB, "topology_version": 1, "ordinal": 0, "exit": exit_,
            "ran_s": 1.0, "observed_at": NOON, **more,
        }
    )  # fmt: skip
    assert exit_fingerprint(report) == expected
