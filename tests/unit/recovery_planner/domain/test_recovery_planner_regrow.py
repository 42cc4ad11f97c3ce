"""A gang that shrank grows again: at a checkpoint, after its snooze, when nodes are there."""

from elastic_story import lose, running, shrunk
from notice_story import NoticeStory

from fault_contracts.commands import StartWorkers, StopWorkers
from fault_contracts.recovery import IncidentOpened, RecoveryPlanned
from recovery_planner.adapters.gang_codec import decode_gang, encode_gang
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.regrow import CHECKPOINT_WAIT_S


def small(**rules: object) -> NoticeStory:
    """Two of three nodes train, and the third has come."""
    story = shrunk(running(3, **rules), "b")
    story.report("s")
    return story


def test_it_grows_at_the_next_checkpoint_after_the_snooze() -> None:
    story = small()
    stops = len(story.all(StopWorkers))
    story.confirm(20, 0, 1)
    assert len(story.all(StopWorkers)) == stops, "it still snoozes"
    story.wait(600)
    story.tick()
    assert len(story.all(StopWorkers)) == stops, "it waits for a checkpoint"
    assert story.gang.awaits_checkpoint
    story.confirm(30, 0)
    assert len(story.all(StopWorkers)) == stops, "one of two ranks is still writing"
    story.confirm(30, 1)
    assert story.last(StopWorkers).reason.rule_id == "elastic.regrow"
    assert [opened.planned for opened in story.all(IncidentOpened)] == [False, True], "a node was lost; then it grows"
    story.stop_all()
    assert story.gang.phase is Phase.STARTING, "there is no verdict to wait for"
    start, plan = story.last(StartWorkers), story.last(RecoveryPlanned)
    assert (story.seats(), start.world_size) == (["a", "c", "s"], 3)
    assert start.checkpoint is not None
    assert start.checkpoint.step == 30
    assert (plan.nnodes_before, plan.nnodes) == (2, 3)
    assert "elastic.grown" in [reason.rule_id for reason in plan.reasons]
    assert len(story.gang.restarts) == 1, "the fault was charged, the regrow is not"
    story.start_all()
    assert story.gang.phase is Phase.RUNNING
    assert story.gang.alarm_at is None, "it has its full size: nothing is waited for"


def test_without_a_node_nothing_happens_and_no_alarm_rings_for_ever() -> None:
    story = shrunk(running(3), "b")
    story.wait(600)
    story.tick()
    assert story.gang.alarm_at is None
    story.report("s")
    story.confirm(20, 0, 1)
    assert story.last(StopWorkers).reason.rule_id == "elastic.regrow"


def test_a_restart_that_happens_anyway_takes_the_new_node_with_it() -> None:
    story = small()
    story.die("a", 0)
    story.stop_all()
    story.classify(fault_id="second")
    assert story.seats() == ["a", "c", "s"]


def test_a_fault_while_it_waits_for_the_checkpoint_ends_the_wait() -> None:
    story = small()
    story.wait(600)
    story.tick()
    lose(story, "c")
    assert story.seats() == ["a", "s"], "the hole comes first"
    assert story.gang.elastic.regrow is None


def test_a_node_that_is_lost_in_the_planned_stop_makes_no_second_incident() -> None:
    story = small()
    story.wait(600)
    story.tick()
    story.confirm(30, 0, 1)
    story.lose("s")
    story.stop_all()
    assert story.gang.phase is Phase.STARTING
    assert story.seats() == ["a", "c"]


def test_a_planner_that_dies_between_stop_and_start_resumes_the_regrow() -> None:
    story = small()
    story.wait(600)
    story.tick()
    story.confirm(30, 0, 1)
    story.state = decode_gang(encode_gang(story.gang))
    story.stop_all()
    assert story.seats() == ["a", "c", "s"]


def test_the_wait_is_given_up_when_the_node_goes_again() -> None:
    story = small()
    story.wait(600)
    story.tick()
    story.leave("s")
    assert story.gang.elastic.regrow is None
    assert "elastic.regrow_off" in story.rules


def test_without_a_checkpoint_it_does_not_stop_and_tries_again_later() -> None:
    story = small()
    story.wait(600)
    story.tick()
    story.wait(CHECKPOINT_WAIT_S)
    story.tick()
    assert story.gang.phase is Phase.RUNNING
    assert story.gang.elastic.regrow is None
    assert story.gang.alarm_at is not None
    assert story.gang.alarm_at > story.now
    story.wait(600)
    story.tick()
    assert story.gang.elastic.regrow is not None


def test_a_replica_is_waited_for_as_a_whole() -> None:
    story = shrunk(running(4, replica_nodes=2), "c", "d")
    story.wait(600)
    story.report("s")
    assert story.gang.elastic.regrow is None
    story.report("t")
    assert story.gang.elastic.regrow is not None


def test_a_policy_without_regrow_stays_small() -> None:
    story = small(regrow=False)
    story.wait(600)
    story.tick()
    story.confirm(30, 0, 1)
    assert story.gang.phase is Phase.RUNNING
    story.die("a", 0)
    story.stop_all()
    story.classify(fault_id="second")
    assert story.seats() == ["a", "c"]


def test_a_notice_comes_before_it_and_its_stop_takes_the_new_node() -> None:
    story = small()
    story.wait(600)
    story.tick()
    story.notice("c", at_step=40)
    story.confirm(30, 0, 1)
    assert story.gang.phase is Phase.RUNNING, "the checkpoint of the notice is waited for"
    story.confirm(40, 0, 1)
    story.stop_all()
    story.leave("c")
    assert story.seats() == ["a", "s"]
