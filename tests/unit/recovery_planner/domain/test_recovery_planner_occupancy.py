"""Whether ranks of a job may be on a node: in doubt they are, and nothing is done to it."""

from faulty_story import FaultyStory

from fault_contracts.agent import AgentPhase
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.occupancy import may_have_ranks


def running() -> FaultyStory:
    story = FaultyStory(nnodes=2)
    story.run("a", "b", "s")
    return story


def test_a_node_of_a_gang_that_runs_has_ranks_and_a_spare_has_none() -> None:
    story = running()
    assert may_have_ranks(story.gang, "a")
    assert not may_have_ranks(story.gang, "s")
    assert not may_have_ranks(story.gang, "nobody")


def test_a_node_that_stops_has_ranks_until_it_says_that_they_are_gone() -> None:
    story = running()
    story.die("a", 0)
    assert may_have_ranks(story.gang, "b")
    story.stop("b")
    assert may_have_ranks(story.gang, "a")
    assert story.gang.phase is Phase.STOPPING
    assert not may_have_ranks(story.gang, "b")


def test_a_node_that_stopped_may_be_given_ranks_again_unless_it_is_held() -> None:
    story = running()
    story.know("b", held="draining")
    story.die("a", 0)
    story.stop_all()
    assert story.gang.phase is Phase.DECIDING
    assert may_have_ranks(story.gang, "a")
    assert not may_have_ranks(story.gang, "b")


def test_a_node_that_was_replaced_in_the_gang_has_none() -> None:
    story = running()
    story.know("b", held="draining")
    story.die("a", 0)
    story.stop_all()
    story.classify()
    assert story.seats() == ["a", "s"]
    assert not may_have_ranks(story.gang, "b")


def test_a_stray_that_is_busy_still_has_ranks_of_another_generation() -> None:
    story = running()
    story.report("late", phase=AgentPhase.RUNNING)
    assert may_have_ranks(story.gang, "late")


def test_a_lost_agent_has_none_that_anybody_could_wait_for() -> None:
    story = running()
    story.lose("b")
    assert not may_have_ranks(story.gang, "b")
