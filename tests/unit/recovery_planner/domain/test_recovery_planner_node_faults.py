"""A device fails: the gang stops at once, the node is not used again until it is well, and a copy changes nothing."""

import pytest
from faulty_story import JOB, XID_79, FaultyStory

from fault_contracts.commands import StartWorkers, StopWorkers
from fault_contracts.faults import Action, Attribution
from fault_contracts.recovery import IncidentOpened, JobEnded, JobOutcome, NodeFaulted, RecoveryPlanned
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.member import Standing


def running(*nodes: str, nnodes: int = 2) -> FaultyStory:
    story = FaultyStory(nnodes=nnodes)
    story.run(*(nodes or ("a", "b", "s")))
    return story


def test_xid_79_stops_the_gang_and_a_spare_takes_the_place() -> None:
    story = running()
    story.device_fails("b")
    assert story.gang.phase is Phase.STOPPING
    assert story.last(IncidentOpened).node_id == "b"
    assert story.last(IncidentOpened).rank is None
    assert XID_79 in story.last(StopWorkers).reason.sentence
    told = story.last(NodeFaulted)
    assert (told.job_id, told.node_id, told.topology_version) == (JOB, "b", 1)
    assert told.incident_id == story.last(IncidentOpened).incident_id
    assert told.condition.device is not None
    assert told.condition.device.gpu_uuid == "GPU-b"
    story.stop_all()
    story.classify(Action.REPLACE_NODE, node="b", attribution=Attribution.HARDWARE)
    assert story.seats() == ["a", "s"], "the survivor keeps its rank, the spare takes node_rank 1"
    assert [move.node_id for move in story.last(RecoveryPlanned).moves] == ["s"]
    assert story.member("b").standing is Standing.CONDEMNED
    story.start_all()
    assert story.gang.phase is Phase.RUNNING


def test_the_ranks_of_the_faulty_node_are_waited_for_and_never_survive_in_place() -> None:
    story = running()
    story.announce()
    story.device_fails("b")
    assert set(story.last(StopWorkers).ranks or ()) == {2, 3}
    assert set(story.gang.awaited) == {"a", "b"}
    story.stop("a", at_barrier=(0, 1))
    assert story.gang.phase is Phase.STOPPING, "b has ranks left"
    story.stop("b", at_barrier=(2, 3))
    story.classify(Action.RESTART_PROCESS)
    assert story.last(StartWorkers).ranks_replaced == (2, 3)
    assert story.seats() == ["a", "s"]


def test_a_node_that_cannot_stop_its_ranks_is_left_behind_at_the_limit_and_stays_out() -> None:
    story = running()
    story.device_fails("b")
    story.stop("a")
    story.wait_for_deadline()
    assert story.member("b").standing is Standing.LOST
    story.report("b")
    assert story.member("b").standing is Standing.CONDEMNED
    assert story.gang.phase is Phase.DECIDING


def test_an_agent_that_is_lost_while_it_is_condemned_does_not_hold_up_the_stop() -> None:
    story = running()
    story.device_fails("b")
    story.stop("a")
    story.lose("b")
    assert story.gang.phase is Phase.DECIDING


@pytest.mark.parametrize(
    "kind",
    [
        {"origin": Attribution.USER},
        {"sympathetic": True},
        {"action": Action.WAIT_OR_IGNORE},
        {"action": Action.DONT_RETRY_NOTIFY_USER},
        {"evidence": False},
    ],
)
def test_what_is_not_the_hardwares_own_stops_nothing_and_costs_no_node(kind: dict[str, object]) -> None:
    story = running()
    story.device_fails("b", **kind)  # type: ignore[arg-type]
    assert story.gang.phase is Phase.RUNNING
    assert story.member("b").standing is Standing.PRESENT
    assert not story.member("b").held
    assert not story.all(NodeFaulted)
    assert "node.fault_costs_nothing" in story.rules


def test_a_contained_error_restarts_the_ranks_and_keeps_the_node() -> None:
    story = running()
    story.device_fails("b", action=Action.RESTART_PROCESS)
    assert len(story.all(NodeFaulted)) == 1
    story.stop_all()
    story.classify()
    assert story.seats() == ["a", "b"]
    story.start_all()
    story.device_fails("b", action=Action.RESTART_PROCESS)
    assert story.gang.phase is Phase.RUNNING, "the same condition again stops nothing"


def test_repeats_of_one_condition_change_nothing_and_another_of_the_same_node_is_told_too() -> None:
    story = running()
    story.device_fails("b")
    story.device_fails("b")
    assert len(story.all(NodeFaulted)) == 1
    story.device_fails("b", "cond-2")
    assert len(story.all(NodeFaulted)) == 2
    assert len(story.all(IncidentOpened)) == 1
    story.device_is_well("b", "cond-1")
    assert story.member("b").standing is Standing.CONDEMNED, "the second is still open"


def test_a_spare_with_a_fault_is_held_without_an_incident_and_not_chosen() -> None:
    story = running("a", "b", "s", "t")
    story.device_fails("s")
    assert story.gang.phase is Phase.RUNNING
    assert not story.all(NodeFaulted)
    story.lose("b")
    story.stop_all()
    story.classify()
    assert story.seats() == ["a", "t"]


def test_without_a_spare_the_gang_waits_for_capacity_and_the_node_comes_back_when_it_is_well() -> None:
    story = running("a", "b")
    story.device_fails("b", action=Action.RESET_GPU)
    story.stop_all()
    story.classify(Action.RESET_GPU, node="b", attribution=Attribution.HARDWARE)
    assert story.gang.phase is Phase.WAITING
    story.report("b")
    assert story.gang.phase is Phase.WAITING, "its agent is there, its GPU is not"
    story.device_is_well("b")
    assert story.gang.phase is Phase.STARTING
    assert story.seats() == ["a", "b"]
    assert "node.fit_again" in story.rules


def test_without_a_spare_the_job_ends_for_want_of_capacity() -> None:
    story = running("a", "b")
    story.device_fails("b")
    story.stop_all()
    story.classify(Action.REPLACE_NODE, node="b", attribution=Attribution.HARDWARE)
    story.wait_for_deadline()
    assert story.last(JobEnded).outcome is JobOutcome.FAILED_NO_CAPACITY


def test_another_life_of_the_agent_does_not_make_the_machine_well() -> None:
    story = running()
    story.device_fails("b")
    story.stop_all()
    story.classify(Action.REPLACE_NODE, node="b", attribution=Attribution.HARDWARE)
    story.start_all()
    story.restart_agent("b")
    assert story.member("b").standing is Standing.CONDEMNED
    story.lose("s")
    story.stop_all()
    story.classify(fault_id="fault-2")
    assert story.gang.phase is Phase.WAITING


def test_a_fault_after_an_exit_of_the_same_attempt_is_told_to_the_judge_and_moves_the_node() -> None:
    story = running()
    story.die("b", 2)
    story.device_fails("b")
    assert len(story.all(IncidentOpened)) == 1
    assert story.last(NodeFaulted).topology_version == 1
    story.stop_all()
    story.classify(Action.REPLACE_NODE, node="b", attribution=Attribution.HARDWARE)
    assert story.seats() == ["a", "s"]


def test_a_fault_after_the_plan_stops_the_next_generation_and_moves_the_node_then() -> None:
    story = running()
    story.die("b", 2)
    story.stop_all()
    story.classify()
    assert story.gang.phase is Phase.STARTING
    story.device_fails("b")
    assert story.gang.phase is Phase.STOPPING
    assert story.last(NodeFaulted).topology_version == 2
    story.stop_all()
    story.classify(Action.REPLACE_NODE, node="b", attribution=Attribution.HARDWARE, fault_id="fault-2")
    assert story.seats() == ["a", "s"]


@pytest.mark.parametrize("resumed", [False, True])
def test_a_hardware_verdict_that_comes_after_the_plan_costs_the_place_at_the_next_stop(resumed: bool) -> None:
    story = running()
    story.die("b", 2)
    story.stop_all()
    story.classify()
    if resumed:
        story.start_all()
    late = {"version": 1, "node": "b", "fault_id": "late", "supersedes": "fault-1"}
    story.classify(Action.REPLACE_NODE, attribution=Attribution.HARDWARE, **late)  # type: ignore[arg-type]
    assert story.gang.phase is (Phase.RUNNING if resumed else Phase.STARTING), "a late word stops nothing"
    assert "verdict.late_blame" in story.rules
    story.die("a", 0)
    story.stop_all()
    story.classify(fault_id="fault-2")
    assert story.seats() == ["a", "s"]


def test_a_fault_of_a_node_whose_ranks_are_done_stops_nothing() -> None:
    story = running()
    story.complete("b")
    story.device_fails("b")
    assert story.gang.phase is Phase.RUNNING
    story.complete("a")
    assert story.last(JobEnded).outcome is JobOutcome.SUCCEEDED


def test_a_fault_of_an_unknown_node_or_of_an_ended_job_is_ignored() -> None:
    story = running("a", "b")
    assert story.device_fails("z").ignored
    story.complete("a")
    story.complete("b")
    assert story.device_fails("b", "cond-9").ignored
