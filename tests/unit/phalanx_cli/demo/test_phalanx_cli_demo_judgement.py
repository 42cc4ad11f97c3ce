"""What counts as held, and that everything else is a problem."""

from datetime import UTC, datetime, timedelta

import pytest

from fault_contracts.faults import Action, Attribution, FaultClassified
from fault_contracts.payload import Reason
from fault_contracts.recovery import (
    IncidentClosed,
    IncidentOpened,
    JobEnded,
    JobOutcome,
    PhaseTimes,
    RecoveryLevel,
    RecoveryPlanned,
    TrainingResumed,
)
from phalanx_cli.demo.inject import Injection
from phalanx_cli.demo.judgement import Injected, judge_bug, judge_recovery, whole_run_problems
from phalanx_cli.demo.scenario import Fault
from phalanx_cli.demo.story import JobStory

AT = datetime(2026, 1, 1, tzinfo=UTC)
WHY = Reason(rule_id="r", sentence="because")


def story(
    *, cause: str = "process_killed", attribution: Attribution = Attribution.PLATFORM, outcome: str = "recovered"
) -> JobStory:
    job = JobStory("j", ranks_per_node=2)
    job.apply(
        IncidentOpened(incident_id="i", job_id="j", topology_version=1, trigger=WHY, fault_observed_at=AT, opened_at=AT)
    )
    job.apply(
        FaultClassified(
            fault_id="f",
            job_id="j",
            topology_version=1,
            attribution=attribution,
            cause=cause,
            confidence=1,
            action=Action.RESTART_PROCESS,
            reasons=(WHY,),
            summary="",
            classified_at=AT,
        )
    )
    job.apply(
        TrainingResumed(
            incident_id="i", job_id="j", topology_version=2, by_step=True, resumed_at=AT + timedelta(seconds=2)
        )
    )
    job.apply(
        IncidentClosed(
            incident_id="i",
            job_id="j",
            outcome=outcome,
            topology_version=2,
            attempts=1,
            attribution=attribution,
            phases=PhaseTimes(total_s=1.0),
            reason=WHY,
            closed_at=AT,
        )
    )
    return job


def injected(fault: Fault = Fault.KILL_RANK) -> Injected:
    return Injected(injection=Injection(fault=fault, sentence="x", target="a"), at=AT, incidents_before=0)


def end(job: JobStory, outcome: JobOutcome, restarts: int = 1) -> None:
    job.apply(JobEnded(job_id="j", outcome=outcome, topology_version=2, restarts=restarts, reason=WHY, ended_at=AT))


def test_a_recovered_fault_with_the_right_verdict_holds() -> None:
    result = judge_recovery(story(), injected())
    assert result.problems == ()
    assert result.injected_to_resumed_s == 2.0
    assert result.reasons == ("[r] because",)


@pytest.mark.parametrize(
    ("job", "wanted"),
    [
        (JobStory("j", ranks_per_node=2), "no incident"),
        (story(outcome="failed"), "not recovered"),
        (story(cause="agent_lost"), "verdict"),
        (story(attribution=Attribution.USER), "verdict"),
    ],
)
def test_whatever_else_came_of_it_is_a_problem(job: JobStory, wanted: str) -> None:
    assert any(wanted in problem for problem in judge_recovery(job, injected()).problems)


def test_a_bug_ends_the_job_with_the_users_verdict_after_one_restart() -> None:
    job = story(cause="repeated_exception", attribution=Attribution.USER, outcome="failed")
    end(job, JobOutcome.FAILED_USER)
    assert judge_bug(job, "x").problems == ()


def test_a_bug_that_is_retried_again_or_blamed_on_others_is_a_problem() -> None:
    job = story(cause="repeated_exception", attribution=Attribution.USER, outcome="failed")
    end(job, JobOutcome.FAILED_USER, restarts=2)
    assert judge_bug(job, "x").problems == ("2 restarts instead of one",)
    job = story(cause="repeated_exception", attribution=Attribution.USER, outcome="failed")
    end(job, JobOutcome.FAILED_BUDGET)
    assert judge_bug(job, "x").problems == ("the job is failed_budget, not failed_user",)
    job = story(cause="python_exception", attribution=Attribution.UNKNOWN, outcome="failed")
    end(job, JobOutcome.FAILED_USER)
    assert "the truth is user" in judge_bug(job, "x").problems[0]


def test_a_restart_planned_after_the_verdict_is_a_problem() -> None:
    job = story(cause="repeated_exception", attribution=Attribution.USER, outcome="failed")
    job.apply(
        RecoveryPlanned(
            incident_id="i",
            job_id="j",
            attempt=1,
            level=RecoveryLevel.PROCESS,
            topology_version=2,
            restarts_left=1,
            reasons=(WHY,),
            planned_at=AT,
        )
    )
    end(job, JobOutcome.FAILED_USER)
    assert judge_bug(job, "x").problems == ("a restart was planned after the verdict",)


def test_an_incident_too_many_and_a_wrong_exit_code_are_problems() -> None:
    job = story()
    end(job, JobOutcome.SUCCEEDED)
    good = {"a": "exit code 0"}
    held = whole_run_problems(job, outcome=JobOutcome.SUCCEEDED, incidents=1, left=good, expected=good)
    assert held == []
    broken = whole_run_problems(
        job, outcome=JobOutcome.SUCCEEDED, incidents=0, left={"a": "exit code 70"}, expected=good
    )
    assert len(broken) == 2
