"""Stories of whole jobs, from the first agent to the last word. The story hands in every event twice."""

import pytest
from planner_story import NOON, Story

from fault_contracts.agent import AgentPhase
from fault_contracts.commands import EndJob, StartWorkers, StopWorkers
from fault_contracts.faults import Action, Attribution
from fault_contracts.rank_rows import rows_of
from fault_contracts.recovery import (
    IncidentClosed,
    IncidentOpened,
    JobEnded,
    JobOutcome,
    NodeLost,
    RecoveryPlanned,
    TrainingResumed,
)
from fault_contracts.recovery_level import RecoveryLevel
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.launch import ROWS_PLAIN_MAX
from recovery_planner.domain.step import DeadlineExpired


def test_rank_dies_and_the_gang_comes_back_once() -> None:
    story = Story().run("a", "b")
    story.make_step("a", 1)
    story.make_step("b", 1)
    story.checkpoint(10, 0, 1, 2, 3)
    story.make_step("a", 14, first=False)
    story.wait(1)
    story.die("b", 3, step=15)
    stop = story.last(StopWorkers)
    assert (stop.fence.topology_version, stop.fence.attempt) == (1, 1)
    assert story.gang.phase is Phase.STOPPING
    story.wait(0.1)
    story.stop("b")
    assert story.all(StartWorkers)[1:] == [], "nobody starts before everybody stopped"
    story.stop("a")
    assert story.gang.phase is Phase.DECIDING
    story.classify()
    start = story.last(StartWorkers)
    assert start.fence.topology_version == 2
    assert start.checkpoint is not None
    assert (start.checkpoint.step, start.checkpoint.path) == (10, "/ckpt/10")
    assert start.restart_count == 1
    assert start.reason is not None
    assert start.reason.sentence.startswith("platform, "), "the terminal says whose fault it was"
    assert story.all(StartWorkers)[0].reason is None
    assert start.master_port == 29_501, "the port that node_rank 0 reserved when it stopped"
    assert (start.base_version, start.rows) == (1, ()), "nothing moved, so the start carries no row"
    story.wait(0.2)
    story.start_all()
    assert story.gang.phase is Phase.STARTING, "a job that reports steps is back when it steps"
    story.wait(0.3)
    story.make_step("a", 11)
    story.make_step("b", 11)
    assert story.gang.phase is Phase.RUNNING
    assert story.last(TrainingResumed).by_step
    closed = story.last(IncidentClosed)
    assert (closed.outcome, closed.attempts, closed.attribution) == ("recovered", 1, Attribution.PLATFORM)
    phases = closed.phases
    assert phases.stop_s == pytest.approx(0.1)
    assert phases.start_s == pytest.approx(0.2)
    assert phases.first_step_s == pytest.approx(0.3)
    assert phases.total_s == pytest.approx(0.6)
    assert phases.steps_lost == 5
    assert story.versions_started() == [1, 2]
    assert len(story.all(IncidentOpened)) == 1


def test_stop_is_ordered_before_anything_is_said() -> None:
    story = Story().run("a", "b")
    before = len(story.published)
    story.die("a", 0)
    assert story.kinds()[before:] == ["StopWorkers", "IncidentOpened"]


def test_siblings_that_fall_with_it_are_the_same_incident() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.die("a", 1)
    story.die("b", 2)
    story.stop_all()
    story.classify()
    assert len(story.all(IncidentOpened)) == len(story.all(StopWorkers)) == 1
    assert story.last(RecoveryPlanned).ranks_replaced == (0, 1, 2)
    assert story.last(RecoveryPlanned).attempt == 1


def test_lost_node_goes_to_the_spare_and_survivors_keep_their_ranks() -> None:
    story = Story().run("a", "b", "spare")
    assert story.seats() == ["a", "b"]
    story.lose("a")
    assert story.last(NodeLost).node_id == "a"
    assert story.gang.awaited == ("b",), "nobody waits for the dead"
    story.stop("b")
    story.classify()
    start = story.last(StartWorkers)
    assert [(row.node_rank, row.node_id) for row in start.rows] == [(0, "spare"), (1, "b")]
    assert start.base_version == 0, "the spare came after the first start and may not hold its table"
    assert start.master_addr == "spare.example"
    assert story.seats() == ["spare", "b"]
    story.start_all()
    assert story.gang.phase is Phase.RUNNING


def test_spare_that_heard_a_start_gets_only_what_changed() -> None:
    story = Story().run("a", "b", "spare")
    story.recover()
    story.lose("a")
    story.stop("b")
    story.classify(fault_id="fault-2")
    start = story.last(StartWorkers)
    assert start.base_version == 2
    assert [(row.node_rank, row.node_id) for row in start.rows] == [(0, "spare")]


def test_spare_dies_while_it_starts() -> None:
    story = Story().run("a", "b", "s1", "s2")
    story.lose("a")
    story.stop("b")
    story.classify()
    story.start("b")
    story.lose("s1")
    stop = story.last(StopWorkers)
    assert (stop.fence.topology_version, stop.fence.attempt) == (2, 2)
    story.stop("b")
    story.classify(fault_id="fault-2")
    assert story.seats() == ["s2", "b"]
    story.start_all()
    assert story.gang.phase is Phase.RUNNING
    assert len(story.all(IncidentOpened)) == 1, "one incident, two attempts"
    assert story.last(IncidentClosed).attempts == 2
    assert story.versions_started() == [1, 2, 3]


def test_rank_dies_again_while_the_gang_starts() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.stop_all()
    story.classify()
    story.start("a")
    story.die("a", 0)
    assert story.gang.phase is Phase.STOPPING
    assert story.gang.started == frozenset({"a"})
    story.stop_all()
    story.classify(fault_id="fault-2")
    story.start_all()
    assert story.versions_started() == [1, 2, 3]
    assert story.last(IncidentClosed).attempts == 2


def test_no_spare_waits_and_a_new_agent_takes_the_hole_with_the_whole_table() -> None:
    story = Story().run("a", "b")
    story.lose("b")
    story.stop("a")
    story.classify()
    assert story.gang.phase is Phase.WAITING
    story.wait(100)
    story.report("c")
    start = story.last(StartWorkers)
    assert story.seats() == ["a", "c"]
    assert start.base_version == 0, "the newcomer holds no table that rows could be a change to"
    assert [row.node_id for row in start.rows] == ["a", "c"]


def test_no_node_comes_in_time() -> None:
    story = Story().run("a", "b")
    story.lose("b")
    story.stop("a")
    story.classify()
    story.wait_for_deadline()
    assert story.gang.phase is Phase.ENDED
    assert story.last(EndJob).outcome is JobOutcome.FAILED_NO_CAPACITY
    assert story.last(IncidentClosed).outcome == "failed"


def test_agent_of_a_lost_node_returns_to_its_place() -> None:
    story = Story().run("a", "b")
    story.lose("b")
    story.stop("a")
    story.classify()
    story.wait(5)
    story.report("b", phase=AgentPhase.RUNNING)
    assert story.gang.phase is Phase.WAITING, "it still runs ranks of the broken generation"
    story.wait(1)
    story.report("b", phase=AgentPhase.READY)
    assert story.gang.phase is Phase.STARTING
    assert story.seats() == ["a", "b"]


def test_restarted_agent_means_dead_ranks() -> None:
    story = Story().run("a", "b")
    story.restart_agent("a")
    assert story.gang.phase is Phase.STOPPING
    assert story.gang.awaited == ("a", "b"), "the new life may have heard the start of the one before"
    story.stop_all()
    story.classify()
    assert story.seats() == ["a", "b"]
    assert story.last(StartWorkers).base_version == 0, "the new life holds no table"


def test_late_words_of_a_former_life_are_ignored() -> None:
    story = Story().run("a", "b")
    old = story.instance("a")
    story.restart_agent("a")
    story.stop_all()
    story.classify()
    story.start_all()
    story.instances["a"] = 1
    assert story.instance("a") == old
    published = len(story.published)
    story.report("a")
    story.die("a", 0)
    story.leave("a")
    assert story.gang.phase is Phase.RUNNING
    assert len(story.published) == published


def test_users_fault_ends_the_job_without_another_start() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.stop_all()
    story.classify(Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER)
    assert story.versions_started() == [1]
    end = story.last(EndJob)
    assert (end.outcome, end.summary) == (JobOutcome.FAILED_USER, "what happened")
    assert story.last(JobEnded).restarts == 0


def test_users_fault_is_known_before_everybody_stopped() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.classify(Action.DONT_RETRY_NOTIFY_USER, attribution=Attribution.USER)
    story.stop_all()
    assert story.gang.phase is Phase.ENDED
    assert story.versions_started() == [1]


def test_budget_ends_the_job_and_says_so() -> None:
    story = Story(restarts_max=2, window_s=60).run("a", "b")
    story.recover()
    story.recover()
    story.die("a", 0)
    story.stop_all()
    story.classify(fault_id="fault-3")
    assert story.gang.phase is Phase.ENDED
    ended = story.last(JobEnded)
    assert ended.outcome is JobOutcome.FAILED_BUDGET
    assert ended.restarts == 2
    assert "2 of 2 restarts in the last 60 s" in ended.reason.sentence


def test_budget_is_a_sliding_window() -> None:
    story = Story(restarts_max=1, window_s=60).run("a", "b")
    story.recover()
    story.wait(61)
    story.recover()
    assert story.gang.phase is Phase.RUNNING
    assert story.gang.restart_count == 2


def test_verdict_that_never_comes_is_unknown() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.stop_all()
    story.wait_for_deadline()
    assert story.gang.phase is Phase.STARTING
    planned = story.last(RecoveryPlanned)
    assert (planned.attribution, planned.level) == (Attribution.UNKNOWN, RecoveryLevel.PROCESS)
    assert "plan.no_verdict" in [reason.rule_id for reason in planned.reasons]
    reason = story.last(StartWorkers).reason
    assert reason is not None
    assert reason.sentence.startswith("unknown, no verdict came in time: "), "unknown is said, not left out"


def test_late_agent_is_left_behind() -> None:
    story = Story().run("a", "b", "spare")
    story.die("a", 0)
    story.stop("a")
    story.classify()
    assert story.gang.phase is Phase.STOPPING
    story.wait_for_deadline()
    assert story.last(NodeLost).node_id == "b"
    assert story.seats() == ["a", "spare"]


def test_gang_that_does_not_start_in_time_is_stopped_and_tried_again() -> None:
    story = Story()
    story.report("a")
    story.report("b")
    story.start("a")
    story.wait_for_deadline()
    assert story.gang.phase is Phase.STOPPING
    assert "b" in story.last(IncidentOpened).trigger.sentence


def test_all_done() -> None:
    story = Story().run("a", "b")
    story.complete("a")
    assert story.gang.phase is Phase.RUNNING
    story.complete("b")
    assert story.last(EndJob).outcome is JobOutcome.SUCCEEDED
    assert story.kinds()[-2:] == ["EndJob", "JobEnded"]


def test_node_lost_after_its_work_is_no_incident() -> None:
    story = Story().run("a", "b")
    story.complete("a")
    story.lose("a")
    assert story.all(IncidentOpened) == []
    story.complete("b")
    assert story.last(JobEnded).outcome is JobOutcome.SUCCEEDED


def test_script_that_ends_before_its_start_is_reported() -> None:
    story = Story(nnodes=1)
    story.report("a")
    story.complete("a")
    assert story.last(JobEnded).outcome is JobOutcome.SUCCEEDED


def test_last_agent_leaves() -> None:
    story = Story().run("a", "b")
    story.leave("a")
    assert story.gang.phase is Phase.STOPPING
    story.leave("b")
    assert story.last(JobEnded).outcome is JobOutcome.CANCELLED
    assert story.versions_started() == [1]


def test_one_agent_leaves_and_the_spare_steps_in() -> None:
    story = Story().run("a", "b", "spare")
    story.leave("b")
    story.stop("a")
    story.classify()
    assert story.seats() == ["a", "spare"]


def test_time_alone_changes_nothing() -> None:
    story = Story().run("a", "b")
    gang = story.gang
    story.wait(1_000_000)
    assert story.feed(DeadlineExpired()).gang == gang
    assert story.now > NOON


def test_twenty_faults_in_a_row_end_in_one_consistent_gang() -> None:
    story = Story(restarts_max=100).run("a", "b", "c", "d")
    for turn in range(20):
        node = story.seats()[turn % 2]
        story.die(node, turn % 4)
        if turn % 3 == 0:
            story.restart_agent(story.seats()[1])
        story.stop_all()
        story.classify(fault_id=f"fault-{turn}")
        if turn % 2:
            story.start(story.seats()[0])
        else:
            story.start_all()
    story.start_all()
    assert story.gang.phase is Phase.RUNNING
    assert story.versions_started() == list(range(1, 22))


def test_the_table_of_a_large_gang_travels_packed_and_fits_one_message() -> None:
    story = Story(nnodes=ROWS_PLAIN_MAX + 1, nproc=8)
    for number in range(ROWS_PLAIN_MAX + 1):
        story.report(f"node-{number}")
    start = story.last(StartWorkers)
    assert start.rows == ()
    assert rows_of(start) == story.gang.table.rows
    assert len(start.model_dump_json()) < 20_000
