"""A job's policy in the life of a gang: waits, ends, deadlines, and a job that only observes."""

from typing import Any

from planner_story import Story

from fault_contracts.commands import StartWorkers, StopWorkers
from fault_contracts.faults import Action, Attribution
from fault_contracts.policy import RecoveryPolicy
from fault_contracts.recovery import ActionWithheld, JobEnded, JobOutcome, RecoveryPlanned
from fault_contracts.recovery_level import RecoveryLevel
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.policy import Policy
from recovery_planner.domain.step import DeadlineExpired


def job(policy: dict[str, Any], *nodes: str, **spec: float) -> Story:
    return Story(recovery=RecoveryPolicy.model_validate(policy), **spec).run(*(nodes or ("a", "b")))


def test_a_backoff_holds_the_start_back_and_the_record_wakes_up_for_it() -> None:
    story = job({"backoff": {"first_s": 30}})
    story.die("a", 0)
    story.stop_all()
    story.classify()
    assert story.gang.phase is Phase.DECIDING
    assert story.versions_started() == [1]
    story.wait(29)
    story.report("a")
    assert story.versions_started() == [1]
    story.wait_for_deadline()
    assert story.versions_started() == [1, 2]
    assert "policy.backoff" in story.rules


def test_the_second_restart_below_level_job_is_escalated() -> None:
    story = job({"process_restarts_before_job": 1})
    story.recover()
    story.die("a", 0)
    story.stop_all()
    story.classify(fault_id="fault-2")
    plan = story.last(RecoveryPlanned)
    assert plan.level is RecoveryLevel.JOB
    assert "policy.escalated" in [reason.rule_id for reason in plan.reasons]


def test_after_a_quiet_time_it_begins_at_the_bottom_again() -> None:
    story = job({"process_restarts_before_job": 1, "quiet_s": 60})
    story.recover()
    story.wait(61)
    story.die("a", 0)
    story.stop_all()
    story.classify(fault_id="fault-2")
    assert story.last(RecoveryPlanned).level is RecoveryLevel.PROCESS


def test_a_cause_that_is_never_retried_ends_the_job_with_both_reasons() -> None:
    story = job({"causes": [{"attribution": "platform", "retry": "never"}]})
    story.die("a", 0)
    story.stop_all()
    story.classify()
    ended = story.last(JobEnded)
    assert ended.outcome is JobOutcome.FAILED_BUDGET
    assert ended.reason.rule_id == "policy.never"
    assert "the last fault" in ended.reason.sentence


def test_a_users_fault_gets_its_confirming_retry_and_no_second() -> None:
    story = job({"confirming_retries": 1})
    for number in (1, 2):
        story.die("a", 0)
        story.stop_all()
        story.classify(Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER, fault_id=f"fault-{number}")
        if number == 1:
            assert story.gang.phase is Phase.STARTING
            story.start_all()
    assert story.last(JobEnded).outcome is JobOutcome.FAILED_USER
    assert story.last(JobEnded).reason.rule_id == "policy.confirmed"


def test_a_job_that_is_not_training_again_in_time_fails() -> None:
    story = job({"fault_deadline_s": 20})
    story.die("a", 0)
    assert story.gang.alarm_at is not None
    story.wait(20)
    story.feed(DeadlineExpired())
    ended = story.last(JobEnded)
    assert ended.reason.rule_id == "policy.fault_deadline"


def test_a_recovered_job_has_no_fault_deadline_left() -> None:
    story = job({"fault_deadline_s": 20})
    story.recover()
    assert story.gang.fault_deadline_at is None


def test_an_observing_job_is_not_stopped_by_a_hang_and_says_what_it_was_spared() -> None:
    story = job({"mode": "observe"})
    story.hang("a", 0)
    assert story.gang.phase is Phase.RUNNING
    assert story.all(StopWorkers) == []
    said = story.last(ActionWithheld)
    assert (said.action, said.withheld_by, said.node_id, said.cause) == ("stop", "observe", "a", "hang")


def test_an_observing_job_restarts_all_ranks_and_gives_up_no_node() -> None:
    story = job({"mode": "observe"}, "a", "b", "s")
    story.die("a", 0)
    story.stop_all()
    story.classify(Action.REPLACE_NODE, attribution=Attribution.HARDWARE, node="a")
    plan = story.last(RecoveryPlanned)
    assert plan.level is RecoveryLevel.PROCESS
    assert story.seats() == ["a", "b"]
    assert [each.action for each in story.all(ActionWithheld)] == ["replace_node"]
    assert story.last(StartWorkers).ranks_replaced is None


def test_an_observing_job_retries_also_what_is_the_users() -> None:
    story = job({"mode": "observe"})
    story.die("a", 0)
    story.stop_all()
    story.classify(Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER)
    assert story.gang.phase is Phase.STARTING
    assert [each.action for each in story.all(ActionWithheld)] == ["dont_retry_notify_user"]


def test_a_hole_waits_no_longer_than_the_cluster_allows() -> None:
    story = job({"capacity_wait_s": 3_600})
    story.policy = Policy(capacity_wait_ceiling_s=60)
    story.lose("b")
    story.stop_all()
    story.classify()
    assert story.gang.phase is Phase.WAITING
    assert story.gang.deadline_at is not None
    assert (story.gang.deadline_at - story.now).total_seconds() == 60
