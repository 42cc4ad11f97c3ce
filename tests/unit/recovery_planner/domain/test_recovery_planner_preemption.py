"""A node gives notice: one checkpoint of the whole gang, then a gang without it, and nothing charged for it."""

from datetime import timedelta

import pytest
from notice_story import NoticeStory as Story
from planner_story import NOON

from fault_contracts.agent import RestartAsked
from fault_contracts.commands import EndJob, StartWorkers, StopWorkers
from fault_contracts.preemption import RequestCheckpoint
from fault_contracts.recovery import IncidentOpened, JobOutcome, RecoveryPlanned
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.step import DeadlineExpired


def training(*nodes: str, **more: float) -> Story:
    """A gang that has saved a checkpoint of all ranks before."""
    story = Story(**more).run(*(nodes or ("a", "b", "c")))  # type: ignore[arg-type]
    for node in story.gang.nodes:
        story.make_step(node, 10)
    story.confirm(10, 0, 1, 2, 3)
    return story


def test_the_gang_saves_stops_and_goes_on_where_the_notice_does_not_matter() -> None:
    story = training("a", "b", "c")
    story.notice("b", at_step=20)
    request = story.last(RequestCheckpoint)
    assert (request.at_step, request.within_s, request.fence.topology_version) == (20, 30.0, 1)
    assert "b is about to be taken away: SIGTERM" in request.reason.sentence
    assert story.gang.phase is Phase.RUNNING, "training goes on until the step"
    story.confirm(20, 0, 1, 2)
    assert story.all(StopWorkers) == [], "one rank is still writing"
    story.confirm(20, 3)
    assert story.last(StopWorkers).reason.rule_id == "preemption.saved"
    story.stop_all()
    assert story.gang.phase is Phase.DECIDING, "b has not left yet, and must get no place"
    story.leave("b")
    start = story.last(StartWorkers)
    assert story.gang.phase is Phase.STARTING, "there is no verdict to wait for"
    assert start.checkpoint is not None
    assert start.checkpoint.step == 20
    assert story.seats() == ["a", "c"]
    assert start.reason is not None
    assert start.reason.sentence.endswith("the checkpoint of step 20 is saved")
    story.start_all()
    for node in story.gang.nodes:
        story.make_step(node, 21)
    assert story.gang.phase is Phase.RUNNING
    assert story.gang.preemption is None
    assert [opened.planned for opened in story.all(IncidentOpened)] == [True]


def test_it_costs_no_restart_of_the_budget() -> None:
    story = training("a", "b", "c", restarts_max=0)
    story.notice("b")
    story.confirm(20, 0, 1, 2, 3)
    story.stop_all()
    story.leave("b")
    assert story.gang.phase is Phase.STARTING
    assert (story.gang.restarts, story.gang.restart_count) == ((), 1)
    assert story.last(RecoveryPlanned).restarts_left == 0
    story.start_all()
    story.die("a", 0)
    story.stop_all()
    story.classify()
    assert story.last(EndJob).outcome is JobOutcome.FAILED_BUDGET, "a fault is charged as ever"


def test_an_older_checkpoint_is_no_answer() -> None:
    story = training()
    story.notice("b", at_step=20)
    story.confirm(19, 0, 1, 2, 3)
    assert story.all(StopWorkers) == []


def test_ranks_that_save_every_ten_steps_answer_with_the_next_one() -> None:
    story = training()
    story.notice("b", at_step=23)
    story.confirm(30, 0, 1, 2, 3)
    assert "checkpoint of step 30 is saved" in story.last(StopWorkers).reason.sentence


def test_one_writer_of_a_job_is_enough_when_it_always_was() -> None:
    story = Story().run("a", "b", "c")
    story.confirm(10, 0)
    story.notice("b")
    story.confirm(20, 0)
    assert story.all(StopWorkers)


def test_with_the_first_checkpoint_of_all_nobody_knows_who_else_is_writing() -> None:
    story = Story().run("a", "b", "c")
    story.notice("b")
    story.confirm(20, 0, 1, 2)
    assert story.all(StopWorkers) == []
    story.confirm(20, 3)
    assert story.all(StopWorkers)


def test_writers_say_it_also_the_first_time() -> None:
    story = Story().run("a", "b", "c")
    story.notice("b")
    story.confirm(20, 0, writers=1)
    assert story.all(StopWorkers)


def test_no_checkpoint_in_time_is_a_stop_all_the_same() -> None:
    story = training()
    story.notice("b", within_s=30)
    assert story.gang.alarm_at == NOON + timedelta(seconds=30)
    story.wait(29.9)
    story.feed(DeadlineExpired())
    assert story.all(StopWorkers) == []
    story.wait(0.1)
    story.feed(DeadlineExpired())
    assert story.last(StopWorkers).reason.rule_id == "preemption.not_saved"


def test_all_nodes_are_told_at_once_and_save_after_one_step() -> None:
    story = training("a", "b")
    story.notice("a", at_step=20)
    story.notice("b", at_step=21, within_s=10)
    [request] = story.all(RequestCheckpoint)
    assert request.at_step == 20
    assert story.gang.alarm_at == NOON + timedelta(seconds=10), "whoever goes first"
    story.confirm(20, 0, 1, 2, 3)
    story.stop_all()
    story.leave("a")
    assert story.gang.phase is Phase.DECIDING
    story.leave("b")
    assert story.last(EndJob).outcome is JobOutcome.CANCELLED


def test_an_agent_that_gave_notice_and_does_not_go_gets_no_place() -> None:
    story = training("a", "b", "c")
    story.notice("b")
    story.confirm(20, 0, 1, 2, 3)
    story.stop_all()
    story.wait_for_deadline()
    assert story.seats() == ["a", "c"]
    assert "preemption.left_out" in story.rules


def test_without_a_spare_the_gang_waits_for_a_node() -> None:
    story = training("a", "b")
    story.notice("b")
    story.confirm(20, 0, 1, 2, 3)
    story.stop_all()
    story.leave("b")
    assert story.gang.phase is Phase.WAITING
    story.report("d")
    assert story.seats() == ["a", "d"]
    start = story.last(StartWorkers)
    assert start.checkpoint is not None
    assert start.checkpoint.step == 20


def test_a_fault_before_the_checkpoint_is_a_fault_and_the_node_gets_no_place_either() -> None:
    story = training("a", "b", "c")
    story.notice("b")
    story.die("a", 0)
    story.stop_all()
    assert story.gang.phase is Phase.DECIDING
    story.leave("b")
    assert story.gang.phase is Phase.DECIDING, "the cause is asked for"
    story.classify()
    assert story.seats() == ["a", "c"]
    assert len(story.gang.restarts) == 1


def test_it_leaves_before_the_checkpoint_and_is_a_node_that_left() -> None:
    story = training("a", "b", "c")
    story.notice("b")
    story.leave("b")
    assert story.gang.phase is Phase.STOPPING
    story.stop_all()
    story.classify()
    assert story.seats() == ["a", "c"]


@pytest.mark.parametrize("case", ["spare", "old version", "stopping"])
def test_a_notice_that_concerns_no_rank_asks_for_nothing(case: str) -> None:
    story = training("a", "b", "c")
    match case:
        case "spare":
            story.notice("c")
        case "old version":
            story.recover()
            for node in story.gang.nodes:
                story.make_step(node, 11)
            story.notice("b", version=1)
        case _:
            story.die("a", 0)
            story.notice("b")
    assert story.all(RequestCheckpoint) == []
    assert story.gang.preemption is None


def test_restarts_in_place_go_with_it() -> None:
    story = training("a", "b", "c")
    story.announce()
    story.notice("b")
    story.confirm(20, 0, 1, 2, 3)
    order = story.last(StopWorkers)
    story.stop("a", command=order, at_barrier=(0, 1))
    story.stop("b", command=order, at_barrier=(2, 3))
    story.leave("b")
    start = story.last(StartWorkers)
    assert start.ranks_replaced == (2, 3), "a's ranks go on in their processes, b's go to the spare"
    assert story.last(RecoveryPlanned).ranks_replaced == (2, 3)
    assert story.gang.incident is not None
    assert story.gang.incident.asked is RestartAsked.IN_PROCESS


# ------------------------------------------------------------------------------------------ an agent acted alone


def test_an_agent_that_stopped_its_ranks_alone_broke_the_gang() -> None:
    story = training("a", "b")
    story.act_alone("b")
    assert story.last(StopWorkers).reason.rule_id == "agent.acted_alone"
    assert "stop.stuck" in story.rules
    story.stop_all()
    story.wait_for_deadline()
    story.start_all()
    for node in story.gang.nodes:
        story.make_step(node, 11)
    assert (story.gang.phase, story.gang.table.topology_version) == (Phase.RUNNING, 2)


def test_its_story_after_the_death_that_led_to_it_is_the_same_incident() -> None:
    story = training("a", "b")
    story.die("b", 2)
    story.act_alone("b")
    assert len(story.all(StopWorkers)) == 1
    assert len(story.all(IncidentOpened)) == 1


def test_a_story_of_a_generation_that_is_over_changes_nothing() -> None:
    story = training("a", "b")
    story.recover()
    before = story.gang
    story.act_alone("b", version=1)
    assert story.gang == before
