"""Holes are filled from spares in order, and it is said why."""

from planner_story import Story

from fault_contracts.agent import AgentPhase
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.placement import candidates, is_kept, place


def stopped(*nodes: str) -> Story:
    """A gang of a and b in which a fell and whoever could has stopped."""
    story = Story().run(*nodes)
    story.lose("a")
    story.stop("b")
    assert story.gang.phase is Phase.DECIDING
    return story


def test_first_spare_takes_the_hole() -> None:
    placement = place(stopped("a", "b", "s1", "s2").gang)
    assert placement.moves == {0: "s1"}
    assert placement.unfilled == ()
    assert "s1 takes node_rank 0 from a (lost)" in placement.reasons[0].sentence
    assert "1 left" in placement.reasons[0].sentence


def test_no_spare_is_said() -> None:
    placement = place(stopped("a", "b").gang)
    assert (placement.moves, placement.unfilled) == ({}, (0,))
    assert placement.reasons[0].rule_id == "placement.no_spare"


def test_who_comes_back_takes_its_own_place_before_a_spare() -> None:
    story = stopped("a", "b", "s")
    story.wait(1)
    story.report("a")
    assert place(story.gang).moves == {0: "a"}


def test_who_still_runs_ranks_is_no_candidate() -> None:
    story = stopped("a", "b")
    story.wait(1)
    story.report("a", phase=AgentPhase.FAULTED)
    assert candidates(story.gang) == []
    assert place(story.gang).unfilled == (0,)


def test_survivor_is_kept_only_when_it_stopped() -> None:
    story = Story().run("a", "b")
    story.die("a", 0)
    story.stop("b")
    assert is_kept(story.gang, "b")
    assert not is_kept(story.gang, "a")


def test_whole_gang_moves_when_everybody_fell() -> None:
    story = Story().run("a", "b", "s1", "s2")
    story.lose("a")
    story.lose("b")
    assert place(story.gang).moves == {0: "s1", 1: "s2"}
