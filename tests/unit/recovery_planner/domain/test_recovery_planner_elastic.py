"""With no node in time a gang goes on smaller, by whole replicas."""

from dataclasses import replace

import pytest
from elastic_story import elastic, label, lose, running, shrunk

from fault_contracts.agent import JobSpec
from fault_contracts.commands import StartWorkers
from fault_contracts.faults import Action, Attribution
from fault_contracts.policy import ElasticPolicy, RecoveryPolicy
from fault_contracts.recovery import JobEnded, JobOutcome, RecoveryPlanned
from recovery_planner.adapters.gang_codec import decode_gang, encode_gang
from recovery_planner.domain.gang import Phase


def test_a_gang_that_gets_no_node_goes_on_without_the_hole_and_ranks_are_dense() -> None:
    story = running(3)
    lose(story, "b")
    assert story.gang.phase is Phase.WAITING
    assert story.gang.alarm_at is not None
    story.wait(29)
    story.tick()
    assert story.gang.phase is Phase.WAITING
    story.wait(1)
    story.tick()
    start, plan = story.last(StartWorkers), story.last(RecoveryPlanned)
    assert story.seats() == ["a", "c"]
    assert (start.nnodes, start.world_size) == (2, 2)
    assert start.checkpoint is not None
    assert start.checkpoint.step == 10, "three ranks confirmed it, and three were required of their generation"
    assert (plan.nnodes_before, plan.nnodes, plan.world_size_before, plan.world_size) == (3, 2, 3, 2)
    assert plan.ranks_replaced == (0, 1)
    assert [row.node_id for row in plan.moves] == ["c"]
    reason = next(each for each in plan.reasons if each.rule_id == "elastic.shrunk")
    assert "shrinks from 3 to 2 nodes, 3 to 2 ranks; out: b" in reason.sentence
    story.start_all()
    assert story.gang.phase is Phase.RUNNING


def test_a_node_that_comes_in_time_takes_the_hole() -> None:
    story = running(3)
    lose(story, "b")
    story.report("s")
    assert story.seats() == ["a", "s", "c"]
    assert story.gang.elastic.sizes == ()


def test_without_a_wait_it_shrinks_at_once() -> None:
    story = running(3, wait_s=0)
    lose(story, "a")
    assert story.seats() == ["b", "c"]
    assert story.last(StartWorkers).master_addr == "b.example"


def test_below_the_least_it_waits_for_a_node_and_then_fails() -> None:
    story = running(3, nnodes_min=2)
    lose(story, "a", "b")
    story.wait(30)
    story.tick()
    assert story.gang.phase is Phase.WAITING
    assert "elastic.cannot_shrink" in story.rules
    assert story.gang.alarm_at is not None
    assert story.gang.alarm_at > story.now, "an alarm that lies behind would ring for ever"
    story.report("s")
    assert story.seats() == ["s", "c"] or story.seats() == ["c", "s"]


def test_the_end_comes_when_the_capacity_wait_is_over() -> None:
    story = running(2, nnodes_min=2)
    lose(story, "a")
    story.wait(300)
    story.tick()
    assert story.last(JobEnded).outcome is JobOutcome.FAILED_NO_CAPACITY


def test_a_replica_leaves_as_a_whole_and_its_survivor_is_a_spare() -> None:
    story = shrunk(running(4, replica_nodes=2), "b")
    assert story.seats() == ["c", "d"]
    assert story.gang.is_present("a")
    story.report("s")
    lose(story, "d")
    assert story.seats()[:1] == ["c"]
    assert len(story.seats()) == 2, "one hole, and two nodes stood by: a replica needs both or none"


def test_a_replica_with_two_holes_leaves_and_others_stay_as_they_are() -> None:
    story = shrunk(running(6, replica_nodes=2), "c", "d")
    assert story.seats() == ["a", "b", "e", "f"]


def test_survivors_of_one_broken_replica_mend_the_other() -> None:
    story = shrunk(running(4, replica_nodes=2), "b", "c")
    assert story.seats() == ["a", "d"], "two nodes are one replica, wherever they stood"


def test_only_the_sizes_that_are_allowed() -> None:
    story = shrunk(running(6, nnodes_allowed=(2, 4)), "f")
    assert len(story.seats()) == 4


def test_labels_say_which_nodes_are_a_replica() -> None:
    story = running(4)
    label(story, "0", "1", "0", "1")
    assert len(shrunk(story, "a").seats()) == 2
    assert story.seats() == ["b", "d"]
    assert story.gang.labels == "", "they spoke of the ranks of another world"
    assert story.gang.elastic.replica_nodes == 2


def test_checkpoints_of_the_smaller_gang_need_its_own_ranks_only() -> None:
    story = shrunk(running(3), "b")
    story.confirm(20, 0)
    lose(story, "c")
    story.wait(30)
    story.tick()
    assert story.last(StartWorkers).checkpoint.step == 10, "rank 1 of 2 has not confirmed"  # type: ignore[union-attr]


def test_and_are_whole_with_all_of_them() -> None:
    story = shrunk(running(3), "b")
    story.confirm(20, 0, 1)
    lose(story, "c")
    story.wait(30)
    story.tick()
    assert story.last(StartWorkers).checkpoint.step == 20  # type: ignore[union-attr]
    assert story.seats() == ["a"]


def test_a_late_confirmation_of_the_larger_generation_is_of_its_size() -> None:
    story = shrunk(running(3), "b")
    assert [story.gang.world_size_at(version) for version in (1, 2, 3)] == [3, 2, 2]


def test_a_fault_that_shrinks_the_gang_costs_a_restart() -> None:
    story = shrunk(running(3), "b")
    assert len(story.gang.restarts) == 1


def test_a_notice_that_shrinks_it_costs_none() -> None:
    story = running(3)
    story.notice("b", at_step=20)
    story.confirm(20, 0, 1, 2)
    story.stop_all()
    story.leave("b")
    story.wait(30)
    story.tick()
    assert story.seats() == ["a", "c"]
    assert story.gang.restarts == ()


def test_a_blamed_node_is_left_out_where_it_was_kept_before() -> None:
    story = running(3)
    story.die("b", 1)
    story.stop_all()
    story.classify(Action.REPLACE_NODE, attribution=Attribution.HARDWARE, node="b")
    story.wait(30)
    story.tick()
    assert story.seats() == ["a", "c"]


def test_a_second_loss_in_the_wait_and_a_planner_that_dies_there_end_in_one_gang() -> None:
    story = running(4)
    lose(story, "b")
    story.wait(10)
    story.lose("c")
    story.state = decode_gang(encode_gang(story.gang))
    story.wait(20)
    story.tick()
    assert story.seats() == ["a", "d"]
    assert story.versions_started() == [1, 2]


def test_ranks_at_the_barrier_go_on_in_their_processes_under_another_number() -> None:
    story = running(3)
    story.announce()
    story.lose("a")
    for node, rank in (("b", 1), ("c", 2)):
        story.stop(node, at_barrier=(rank,))
    story.classify()
    story.wait(30)
    story.tick()
    start = story.last(StartWorkers)
    assert (story.seats(), start.ranks_replaced) == (["b", "c"], ())


def test_without_the_policy_a_hole_waits_as_ever() -> None:
    story = running(2)
    assert story.spec.policy is not None
    story.state = replace(story.gang, spec=story.spec.model_copy(update={"policy": None}))
    lose(story, "b")
    story.wait(60)
    story.tick()
    assert story.gang.phase is Phase.WAITING


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"nnodes_min": 4}, "above the job's 3 nodes"),
        ({"nnodes_min": 1, "nnodes_allowed": (1, 4)}, "nnodes_allowed has a value above"),
        ({"nnodes_min": 1, "replica_nodes": 2}, "no whole replicas of 2"),
    ],
)
def test_a_policy_that_does_not_fit_the_job_is_refused(rules: dict[str, object], said: str) -> None:
    policy = RecoveryPolicy(elastic=ElasticPolicy.model_validate(rules))
    with pytest.raises(ValueError, match=said):
        JobSpec(nnodes=3, nproc_per_node=1, policy=policy)


def test_the_first_gang_has_the_size_that_was_asked_for() -> None:
    story = elastic(3)
    story.report("a")
    story.report("b")
    assert story.gang.phase is Phase.FORMING
