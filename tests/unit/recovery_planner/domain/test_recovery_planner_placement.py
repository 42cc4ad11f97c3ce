"""Holes are filled from spares in order, and it is said why."""

from dataclasses import replace

from planner_story import JOB, Story

from fault_contracts.agent import AgentPhase, RankLabelsReported
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.placement import candidates, is_kept, place
from recovery_planner.domain.rank_labels import RanksLabelled


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


def labelled(**stands: str) -> Story:
    """A gang of a and b in which a fell; `rack/domain` of every node, spares included."""
    story = Story()
    for node, stand in stands.items():
        rack, _, domain = stand.partition("/")
        story.report(node, node_labels={"rack": rack, "nvlink_domain": domain or "none"})
    for node in story.gang.nodes:
        story.start(node)
    story.feed(
        RanksLabelled(
            reports=tuple(
                RankLabelsReported(
                    node_id=story.seats()[rank // 2],
                    job_id=JOB,
                    topology_version=1,
                    rank=rank,
                    labels={"tp": str(rank)},
                )
                for rank in range(4)
            )
        )
    )
    story.lose("a")
    story.stop("b")
    return story


def test_the_spare_in_the_nvlink_domain_of_the_tensor_group_is_taken_and_it_is_said_what_it_costs() -> None:
    placement = place(labelled(a="r1/d1", b="r1/d1", far="r2/d2", near="r1/d1").gang)
    assert placement.moves == {0: "near"}
    said = placement.reasons[0].sentence
    assert "near takes node_rank 0 from a (lost): it stands in rack r1, nvlink domain d1 and costs 0," in said
    assert "far would cost 100 (tensor 100); 1 left" in said


def test_the_only_spare_is_taken_wherever_it_stands() -> None:
    placement = place(labelled(a="r1/d1", b="r1/d1", far="r2/d2").gang)
    assert placement.moves == {0: "far"}
    assert "costs 100 (tensor 100), no other is free elsewhere; 0 left" in placement.reasons[0].sentence


def test_damaged_labels_of_ranks_leave_no_hole() -> None:
    gang = replace(labelled(a="r1/d1", b="r1/d1", far="r2/d2", near="r1/d1").gang, labels="!")
    placement = place(gang)
    assert placement.moves == {0: "near"}
    assert "ring" in placement.reasons[0].sentence, "by the neighbours in rank"


def test_a_node_that_returns_keeps_its_place_though_another_would_be_nearer() -> None:
    story = labelled(a="r2/d2", b="r1/d1", near="r1/d1")
    story.wait(1)
    story.report("a", node_labels={"rack": "r2"})
    assert place(story.gang).moves == {0: "a"}
