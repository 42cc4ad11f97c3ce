"""Reports about another generation, another life or another order change nothing."""

import pytest
from planner_story import Story

from fault_contracts.commands import StartWorkers, StopMode, StopWorkers
from fault_contracts.recovery import IncidentOpened, RecoveryPlanned
from recovery_planner.domain.gang import Phase


def test_death_in_an_older_generation_is_stale() -> None:
    story = Story().run("a", "b")
    story.recover()
    published = len(story.published)
    story.die("a", 0, version=1)
    assert story.gang.phase is Phase.RUNNING
    assert len(story.published) == published


def test_death_on_a_spare_is_stale() -> None:
    story = Story().run("a", "b", "s")
    story.die("s", 0)
    assert story.gang.phase is Phase.RUNNING


def test_hung_ranks_open_an_incident_and_get_no_grace() -> None:
    story = Story().run("a", "b")
    story.hang("b", 3, 2, step=7)
    stop = story.last(StopWorkers)
    assert (stop.mode, stop.ranks) == (StopMode.PROCESS, (3, 2))
    opened = story.last(IncidentOpened)
    assert (opened.node_id, opened.rank, opened.trigger.rule_id) == ("b", 3, "ranks.hang")
    assert story.gang.step_max == 7
    story.stop_all()
    story.classify()
    assert story.last(RecoveryPlanned).ranks_replaced == (2, 3)


def test_a_hang_that_names_nobody_stops_the_gang_as_well() -> None:
    story = Story().run("a", "b")
    story.hang("a")
    assert story.last(StopWorkers).ranks is None
    assert story.last(IncidentOpened).rank is None


def test_a_hang_of_another_generation_life_or_node_is_stale() -> None:
    story = Story().run("a", "b", "s")
    story.recover()
    published = len(story.published)
    story.hang("a", 0, version=1)
    story.hang("a", 0, instance="a/0")
    story.hang("s", 0)
    assert story.gang.phase is Phase.RUNNING
    assert len(story.published) == published


def test_a_node_cannot_condemn_the_ranks_of_another() -> None:
    story = Story().run("a", "b")
    story.hang("a", 0, 2)
    assert story.last(StopWorkers).ranks == (0,)
    assert "ranks.foreign" in story.rules


def test_hangs_on_two_nodes_are_one_incident() -> None:
    story = Story().run("a", "b")
    story.hang("a", 1)
    story.hang("b", 2)
    assert len(story.all(IncidentOpened)) == 1
    assert story.gang.incident is not None
    assert story.gang.incident.condemned == (1, 2)


def test_stop_of_an_earlier_order_does_not_count() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    first = story.last(StopWorkers)
    story.stop_all()
    story.classify()
    story.die("a", 0)
    story.stop("b", command=first)
    assert story.gang.stopped == frozenset()
    story.stop("b")
    assert story.gang.stopped == frozenset({"b"})


def test_first_start_of_every_node_makes_it_run() -> None:
    story = Story()
    story.report("a")
    story.report("b")
    story.start("a")
    assert story.gang.phase is Phase.STARTING
    story.start("b")
    assert story.gang.phase is Phase.RUNNING


def test_only_nodes_that_ever_stepped_are_waited_for() -> None:
    story = Story().run("a", "b")
    story.make_step("a", 1)
    story.recover()
    assert story.gang.phase is Phase.STARTING
    story.make_step("a", 1)
    assert story.gang.phase is Phase.RUNNING, "no rank of b uses worker-link"


def test_steps_after_the_first_are_not_worth_a_write() -> None:
    story = Story().run("a", "b")
    assert story.make_step("a", 1).durable
    assert not story.make_step("a", 2, first=False).durable
    assert story.gang.step_max == 2


@pytest.mark.parametrize("code", ["start_failed", "expired", "illegal_transition", "table_gap"])
def test_refused_start_is_a_failed_attempt(code: str) -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.stop_all()
    story.classify()
    story.refuse("b", story.last(StartWorkers), code)
    assert story.gang.phase is Phase.STOPPING
    assert story.last(StopWorkers).fence.attempt == 2


def test_after_a_table_gap_the_whole_table_is_sent() -> None:
    story = Story().run("a", "b")
    story.recover()
    assert story.last(StartWorkers).base_version == 1
    story.die("a", 0)
    story.stop_all()
    story.classify(fault_id="fault-2")
    story.refuse("b", story.last(StartWorkers), "table_gap")
    story.stop_all()
    story.classify(fault_id="fault-3")
    start = story.last(StartWorkers)
    assert start.base_version == 0
    assert len(start.rows) == 2


def test_refused_stop_is_left_to_the_deadline() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.refuse("b", story.last(StopWorkers), "stale")
    assert story.gang.phase is Phase.STOPPING
    assert "command.refused" in story.rules


def test_completion_of_an_older_generation_is_stale() -> None:
    story = Story().run("a", "b")
    story.complete("a")
    story.recover("b", 2)
    assert story.gang.completed == frozenset()
    assert story.gang.phase is Phase.RUNNING
