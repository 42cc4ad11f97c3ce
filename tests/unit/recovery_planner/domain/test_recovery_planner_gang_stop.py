"""Stop first, and count attempts only when a started generation broke."""

from planner_story import Story

from fault_contracts.commands import StopWorkers
from fault_contracts.recovery import IncidentOpened, NodeLost
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.gang_stop import DEAD_RANKS_MAX
from recovery_planner.domain.member import Standing


def test_fault_stops_the_gang_with_its_own_grace() -> None:
    story = Story(stop_grace_s=0.7).run("a", "b")
    story.die("a", 0)
    assert story.last(StopWorkers).grace_s == 0.7
    assert story.gang.deadline_at is not None
    assert (story.gang.deadline_at - story.now).total_seconds() == 0.7 + story.policy.stop_margin_s


def test_incident_ids_differ_by_generation_and_by_run() -> None:
    story = Story().run("a", "b")
    story.recover()
    story.recover()
    first, second = story.all(IncidentOpened)
    assert first.incident_id != second.incident_id


def test_faults_while_it_stops_are_the_same_attempt() -> None:
    story = Story().run("a", "b", "s")
    story.die("a", 0)
    story.lose("b")
    assert story.gang.incident is not None
    assert story.gang.incident.attempt == 1
    assert len(story.all(StopWorkers)) == 1
    assert story.last(NodeLost).incident_id == story.gang.incident.incident_id


def test_every_second_fault_after_a_start_is_one_attempt_more() -> None:
    story = Story().run("a", "b")
    for attempt in (1, 2, 3):
        story.die("a", 0)
        assert story.gang.incident is not None
        assert story.gang.incident.attempt == attempt
        assert story.last(StopWorkers).fence.attempt == attempt
        story.stop_all()
        story.classify(fault_id=f"fault-{attempt}")


def test_lost_spare_is_nobodys_incident() -> None:
    story = Story().run("a", "b", "s")
    story.lose("s")
    assert story.gang.phase is Phase.RUNNING
    assert story.all(NodeLost) == [], "the judge would take it for a fault of the gang"
    assert story.gang.members["s"].standing is Standing.LOST


def test_dead_ranks_are_bounded() -> None:
    story = Story(nnodes=2, nproc=1_024).run("a", "b")
    for rank in range(DEAD_RANKS_MAX + 10):
        story.die("a", rank)
    assert story.gang.incident is not None
    assert len(story.gang.incident.dead_ranks) == DEAD_RANKS_MAX


def test_whoever_is_late_is_left_behind_and_the_rest_goes_on() -> None:
    story = Story(nnodes=3).run("a", "b", "c", "s")
    story.die("a", 0)
    story.stop("a")
    story.stop("c")
    story.classify()
    story.wait_for_deadline()
    assert story.gang.members["b"].standing is Standing.LOST
    assert story.seats() == ["a", "s", "c"]
