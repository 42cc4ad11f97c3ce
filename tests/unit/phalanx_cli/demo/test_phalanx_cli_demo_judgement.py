"""What counts as held, and that everything else is a problem."""

from datetime import UTC, datetime, timedelta

import pytest

from fault_contracts.agent import ExitStatus, WorkerExited
from fault_contracts.faults import Action, Attribution, Culprit, FaultClassified
from fault_contracts.hardware import HardwareChange, HardwareChanged, LedgerEntry, NodeStanding, NodeStandingChanged
from fault_contracts.payload import Health, Reason
from fault_contracts.recovery import (
    GangFormed,
    IncidentClosed,
    IncidentOpened,
    JobEnded,
    JobOutcome,
    NodeAssignment,
    NodeLost,
    PhaseTimes,
    RecoveryPlanned,
    TrainingResumed,
)
from fault_contracts.recovery_level import RecoveryLevel
from phalanx_cli.demo.inject import Injection
from phalanx_cli.demo.judgement import Injected, judge_bug, judge_recovery, whole_run_problems
from phalanx_cli.demo.scenario import Fault
from phalanx_cli.demo.story import IncidentStory, JobStory

ALL_NEW = {1: {0: 10, 1: 11, 2: 12, 3: 13}, 2: {0: 20, 1: 21, 2: 22, 3: 23}}
NONE_NEW = {1: ALL_NEW[1], 2: ALL_NEW[1]}
ONE_NEW = {1: ALL_NEW[1], 2: {**ALL_NEW[1], 3: 23}}
RANK_3 = Culprit(node_id="a", rank=3)
AT = datetime(2026, 1, 1, tzinfo=UTC)
WHY = Reason(rule_id="r", sentence="because")


def story(
    *,
    cause: str = "process_killed",
    attribution: Attribution = Attribution.PLATFORM,
    outcome: str = "recovered",
    culprit: Culprit = RANK_3,
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
            culprit=culprit,
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


def injection(fault: Fault) -> Injection:
    return Injection(fault=fault, sentence="x", node_id="a", rank=3)


def injected(fault: Fault = Fault.KILL_RANK) -> Injected:
    return Injected(injection=injection(fault), at=AT - timedelta(seconds=1), incidents_before=0)


def end(job: JobStory, outcome: JobOutcome, restarts: int = 1) -> None:
    job.apply(JobEnded(job_id="j", outcome=outcome, topology_version=2, restarts=restarts, reason=WHY, ended_at=AT))


def test_a_recovered_fault_with_the_right_verdict_holds() -> None:
    result = judge_recovery(story(), injected(), ALL_NEW)
    assert result.problems == ()
    assert result.suspect == "rank 3, a"
    assert result.injected_to_seen_s == 1.0
    assert result.injected_to_resumed_s == 3.0
    assert result.reasons == ("[r] because",)


@pytest.mark.parametrize(
    ("job", "wanted"),
    [
        (JobStory("j", ranks_per_node=2), "no incident"),
        (story(outcome="failed"), "not recovered"),
        (story(cause="agent_lost"), "verdict"),
        (story(attribution=Attribution.USER), "verdict"),
        (
            story(culprit=Culprit(node_id="a", rank=2)),
            "the suspect is rank 2, a, the fault was injected into rank 3, a",
        ),
        (story(culprit=Culprit(node_id="b", rank=3)), "suspect"),
        (story(culprit=Culprit()), "the suspect is nobody"),
    ],
)
def test_whatever_else_came_of_it_is_a_problem(job: JobStory, wanted: str) -> None:
    assert any(wanted in problem for problem in judge_recovery(job, injected(), ALL_NEW).problems)


@pytest.mark.parametrize(
    ("fault", "cause", "attribution", "good"),
    [
        (Fault.KILL_RANK, "process_killed", Attribution.PLATFORM, ALL_NEW),
        (Fault.RAISE_IN_PLACE, "python_exception", Attribution.UNKNOWN, NONE_NEW),
        (Fault.KILL_IN_PLACE, "process_killed", Attribution.PLATFORM, ONE_NEW),
    ],
)
def test_the_ranks_with_a_new_process_are_those_that_need_one(
    fault: Fault, cause: str, attribution: Attribution, good: dict[int, dict[int, int]]
) -> None:
    job = story(cause=cause, attribution=attribution)
    for lives in (ALL_NEW, NONE_NEW, ONE_NEW):
        problems = judge_recovery(job, injected(fault), lives).problems
        assert [problem for problem in problems if "new processes" in problem] == list(problems)
        assert (not problems) is (lives is good)


def test_the_verdict_on_a_nan_names_the_rule_that_saw_it() -> None:
    job = story(cause="log_rule", attribution=Attribution.UNKNOWN)
    assert judge_recovery(job, injected(Fault.NAN_LOSS), ALL_NEW).problems == (
        "no reason of the verdict names loss-is-not-finite",
    )
    job.verdicts[0] = job.verdicts[0].model_copy(
        update={"reasons": (Reason(rule_id="r", sentence="rule LogSlow_loss-is-not-finite"),)}
    )
    assert judge_recovery(job, injected(Fault.NAN_LOSS), ALL_NEW).problems == ()


def test_a_rank_that_left_no_word_of_its_process_is_unknown_and_a_problem() -> None:
    silent = {1: ALL_NEW[1], 2: {0: 10, 1: 11, 2: 12}}
    result = judge_recovery(
        story(cause="python_exception", attribution=Attribution.UNKNOWN), injected(Fault.RAISE_IN_PLACE), silent
    )
    assert result.replaced is None
    assert result.problems == ("new processes: unknown; there should be new ones for none",)


def test_a_bug_ends_the_job_with_the_users_verdict_after_one_restart() -> None:
    job = story(cause="repeated_exception", attribution=Attribution.USER, outcome="failed")
    end(job, JobOutcome.FAILED_USER)
    assert judge_bug(job, injection(Fault.BUG)).problems == ()


def test_a_bug_that_is_retried_again_or_blamed_on_others_is_a_problem() -> None:
    job = story(cause="repeated_exception", attribution=Attribution.USER, outcome="failed")
    end(job, JobOutcome.FAILED_USER, restarts=2)
    assert judge_bug(job, injection(Fault.BUG)).problems == ("2 restarts instead of one",)
    job = story(cause="repeated_exception", attribution=Attribution.USER, outcome="failed")
    end(job, JobOutcome.FAILED_BUDGET)
    assert judge_bug(job, injection(Fault.BUG)).problems == ("the job is failed_budget, not failed_user",)
    job = story(cause="python_exception", attribution=Attribution.UNKNOWN, outcome="failed")
    end(job, JobOutcome.FAILED_USER)
    assert "the truth is user" in judge_bug(job, injection(Fault.BUG)).problems[0]


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
    assert judge_bug(job, injection(Fault.BUG)).problems == ("a restart was planned after the verdict",)


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


GPU = "GPU-a1"


def sick_gpu(*, blamed: str = GPU, struck: str = GPU, fit: Health = Health.BAD, mover: str = "c") -> JobStory:
    """Node a of a and b has a sick GPU, and its place goes to `mover`."""
    job = story(cause="gpu_lost", attribution=Attribution.HARDWARE, culprit=Culprit(node_id="a", gpu_uuid=blamed))
    job.apply(GangFormed(job_id="j", topology_version=1, nodes=("a", "b"), spares=("c",), world_size=4, formed_at=AT))
    job.apply(
        RecoveryPlanned(
            incident_id="i",
            job_id="j",
            attempt=1,
            level=RecoveryLevel.PROCESS,
            topology_version=2,
            moves=(NodeAssignment(node_rank=0, node_id=mover, address="x", nproc=2),),
            restarts_left=1,
            reasons=(WHY,),
            planned_at=AT,
        )
    )
    entry = LedgerEntry(device_id=struck)
    job.apply(
        HardwareChanged(
            node_id="a", device_id=struck, change=HardwareChange.STRUCK, entry=entry, by="x", reason=WHY, changed_at=AT
        )
    )
    standing = NodeStanding(node_id="a", fit=fit, reasons=(WHY,))
    job.apply(NodeStandingChanged(node_id="a", standing=standing, changed_at=AT))
    return job


def lost_gpu() -> Injected:
    gone = Injection(fault=Fault.XID_79, sentence="x", node_id="a", rank=None, gpu_uuid=GPU)
    return Injected(injection=gone, at=AT, incidents_before=0)


def test_a_sick_gpu_that_is_blamed_listed_and_left_behind_holds() -> None:
    assert judge_recovery(sick_gpu(), lost_gpu(), ALL_NEW).problems == ()


@pytest.mark.parametrize(
    ("job", "wanted"),
    [
        (sick_gpu(blamed="GPU-b1"), "blames GPU GPU-b1"),
        (sick_gpu(struck="GPU-b1"), "ledger holds nothing"),
        (sick_gpu(fit=Health.OK), "counts as fit"),
        (sick_gpu(mover="a"), "was not moved"),
    ],
)
def test_a_sick_gpu_that_gets_away_with_it_is_a_problem(job: JobStory, wanted: str) -> None:
    assert any(wanted in problem for problem in judge_recovery(job, lost_gpu(), ALL_NEW).problems)


def both(*, seen: bool = True, lost: bool = True, attempts: int = 1, culprit: Culprit = RANK_3) -> JobStory:
    """A rank of node a and the agent of node b are gone at once; node c takes over from b."""
    job = story(culprit=culprit)
    job.apply(GangFormed(job_id="j", topology_version=1, nodes=("a", "b"), spares=("c",), world_size=4, formed_at=AT))
    row = NodeAssignment(node_rank=1, node_id="c", address="x", nproc=2)
    job.apply(
        RecoveryPlanned(
            incident_id="i", job_id="j", attempt=1, level=RecoveryLevel.PROCESS, topology_version=2, moves=(row,),
            restarts_left=1, reasons=(WHY,), planned_at=AT,
        )
    )  # fmt: skip
    if seen:
        status = ExitStatus(rank=3, local_rank=1, pid=7, signal=9)
        job.apply(
            WorkerExited(
                node_id="a", instance_id="i", job_id="j", topology_version=1, ordinal=0, exit=status, ran_s=1,
                observed_at=AT,
            )
        )  # fmt: skip
    if lost:
        job.apply(NodeLost(job_id="j", node_id="b", topology_version=1, reason=WHY, lost_at=AT))
    closed = job.incidents[0].closed
    assert closed is not None
    job.incidents[0].closed = closed.model_copy(update={"attempts": attempts})
    return job


def two_at_once() -> Injected:
    hit = Injection(fault=Fault.TWO_AT_ONCE, sentence="x", node_id="b", rank=None, also=(("a", 3),))
    return Injected(injection=hit, at=AT, incidents_before=0)


@pytest.mark.parametrize("culprit", [RANK_3, Culprit(node_id="b")])
def test_two_faults_at_once_hold_whichever_of_them_is_blamed(culprit: Culprit) -> None:
    assert judge_recovery(both(culprit=culprit), two_at_once(), ALL_NEW).problems == ()


@pytest.mark.parametrize(
    ("job", "wanted"),
    [
        (both(seen=False), "nobody saw the end of rank 3 on a"),
        (both(lost=False), "nobody saw that b is lost"),
        (both(attempts=2), "2 attempts"),
        (both(culprit=Culprit(node_id="c")), "the fault was injected into b and rank 3, a"),
    ],
)
def test_one_of_two_faults_that_nobody_found_is_a_problem(job: JobStory, wanted: str) -> None:
    assert any(wanted in problem for problem in judge_recovery(job, two_at_once(), ALL_NEW).problems)


def test_a_node_that_is_lost_and_keeps_its_ranks_is_a_problem() -> None:
    job = both()
    job.rank_table[1] = "b"
    assert any("b was not moved" in problem for problem in judge_recovery(job, two_at_once(), ALL_NEW).problems)
    assert any("to another node" in problem for problem in judge_recovery(job, injected(), ALL_NEW).problems)


def poisoned(*, stepped_over: int | None = 60, then: int | None = 40, incidents: int = 2) -> JobStory:
    """The second incident starts from the checkpoint before the one that the first restart loaded."""
    job = story(cause="repeated_exception", attribution=Attribution.USER)
    first = job.incidents[0]
    job.incidents.clear()
    if incidents == 2:
        opened = first.opened.model_copy(update={"incident_id": "h", "topology_version": 0})
        job.incidents.append(IncidentStory(opened=opened, closed=first.closed))
    job.incidents.append(first)
    job.apply(
        RecoveryPlanned(
            incident_id="i", job_id="j", attempt=1, level=RecoveryLevel.PROCESS, topology_version=2, restarts_left=1,
            reasons=(WHY,), planned_at=AT, checkpoint_step=then, checkpoint_stepped_over=stepped_over,
        )
    )  # fmt: skip
    return job


def poison() -> Injected:
    return Injected(injection=injection(Fault.POISONED), at=AT, incidents_before=0)


def test_a_poisoned_checkpoint_that_is_stepped_over_holds() -> None:
    assert judge_recovery(poisoned(), poison(), ALL_NEW).problems == ()


@pytest.mark.parametrize(
    ("job", "wanted"),
    [
        (poisoned(stepped_over=None), "0 checkpoints were stepped over instead of one"),
        (poisoned(then=None), "started from None"),
        (poisoned(then=80), "started from 80"),
    ],
)
def test_a_poisoned_checkpoint_that_is_loaded_again_is_a_problem(job: JobStory, wanted: str) -> None:
    assert any(wanted in problem for problem in judge_recovery(job, poison(), ALL_NEW).problems)


def test_a_checkpoint_that_is_stepped_over_for_nothing_is_a_problem() -> None:
    job = story()
    job.incidents[0].plans = poisoned().incidents[1].plans
    assert any("step 60 was stepped over" in problem for problem in judge_recovery(job, injected(), ALL_NEW).problems)


def test_a_node_that_is_blamed_for_a_programs_fault_is_a_problem() -> None:
    job = story(cause="illegal_memory_access", attribution=Attribution.USER)
    assert judge_recovery(job, injected(Fault.XID_31), ALL_NEW).problems == ()
    standing = NodeStanding(node_id="a", fit=Health.BAD, reasons=(WHY,))
    job.apply(NodeStandingChanged(node_id="a", standing=standing, changed_at=AT))
    assert any("was blamed" in problem for problem in judge_recovery(job, injected(Fault.XID_31), ALL_NEW).problems)
