"""When a gang restarts in place, which processes are replaced, and when it falls back to new processes."""

import pytest
from planner_story import Story

from fault_contracts.agent import RestartAsked
from fault_contracts.commands import StartWorkers, StopMode, StopWorkers
from fault_contracts.faults import Action
from fault_contracts.recovery import RecoveryPlanned
from fault_contracts.recovery_level import RecoveryLevel
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.in_process import granularity, graver
from recovery_planner.domain.policy import Policy
from training_topology.identity import NodeId, NodeRank
from training_topology.topology import NodeRow, RankTable


def announced(*, policy: Policy | None = None, nodes: tuple[str, ...] = ("a", "b")) -> Story:
    story = Story(policy=policy).run(*nodes)
    story.announce()
    return story


def recover(
    story: Story, at_barrier: dict[str, tuple[int, ...]], action: Action = Action.RESTART_PROCESS
) -> StartWorkers:
    for node in story.gang.awaited:
        story.stop(node, at_barrier=at_barrier.get(node, ()))
    story.classify(action, fault_id=f"fault-{story.gang.table.topology_version}")
    return story.last(StartWorkers)


ALL = {"a": (0, 1), "b": (2, 3)}


def test_an_exception_in_a_block_restarts_all_in_place() -> None:
    story = announced()
    story.fail_alive("b", 2)
    stop = story.last(StopWorkers)
    assert (stop.mode, stop.ranks, stop.barrier_s) == (StopMode.IN_PROCESS, None, 10.0)
    start = recover(story, ALL)
    assert (start.level, start.ranks_replaced) == (RecoveryLevel.IN_PROCESS, ())
    planned = story.last(RecoveryPlanned)
    assert (planned.level, planned.ranks_replaced, planned.granularity) == (RecoveryLevel.IN_PROCESS, (), "none")
    story.start_all()
    assert story.gang.phase is Phase.RUNNING


def test_a_dead_rank_alone_gets_a_new_process() -> None:
    story = announced()
    story.die("b", 2)
    start = recover(story, {"a": (0, 1), "b": (3,)})
    assert (start.level, start.ranks_replaced) == (RecoveryLevel.IN_PROCESS, (2,))
    assert story.last(RecoveryPlanned).granularity == "rank"


def test_a_lost_node_is_replaced_by_the_spare_and_the_others_go_on_in_place() -> None:
    story = announced(nodes=("a", "b", "spare"))
    story.lose("b")
    start = recover(story, {"a": (0, 1)})
    assert (start.level, start.ranks_replaced) == (RecoveryLevel.IN_PROCESS, (2, 3))
    assert story.last(RecoveryPlanned).granularity == "node"
    story.start_all()
    story.die("a", 0)
    assert story.last(StopWorkers).mode is StopMode.PROCESS, "the spare has not announced a block yet"


def test_one_node_without_blocks_means_new_processes_everywhere() -> None:
    story = Story().run("a", "b")
    story.announce("a")
    story.die("b", 2)
    assert story.last(StopWorkers).mode is StopMode.PROCESS
    start = recover(story, {})
    assert (start.level, start.ranks_replaced) == (RecoveryLevel.PROCESS, None)
    assert story.last(RecoveryPlanned).granularity == "all"


def test_an_announcement_of_an_older_generation_does_not_count() -> None:
    story = Story().run("a", "b")
    story.recover()
    for node in ("a", "b"):
        story.report(node, topology_version=1, in_process=True)
    story.die("a", 0)
    assert story.last(StopWorkers).mode is StopMode.PROCESS


def test_new_processes_have_to_announce_their_blocks_again() -> None:
    story = announced()
    story.fail_alive("a", 0, asked=RestartAsked.PROCESS)
    recover(story, {})
    story.start_all()
    assert not any(member.in_process for member in story.gang.members.values())


def test_after_two_restarts_in_place_an_incident_gets_new_processes() -> None:
    story = announced()
    story.make_step("a", 1)
    story.make_step("b", 1)
    for _ in range(2):
        story.fail_alive("a", 0)
        assert story.last(StopWorkers).mode is StopMode.IN_PROCESS
        recover(story, ALL)
        story.start_all()
        assert story.gang.phase is Phase.STARTING, "it has not stepped, so the incident is still open"
    story.fail_alive("a", 0)
    assert story.last(StopWorkers).mode is StopMode.PROCESS
    assert recover(story, {}).level is RecoveryLevel.PROCESS


def test_an_incident_that_was_healed_gives_the_attempts_back() -> None:
    story = announced()
    for _ in range(3):
        story.fail_alive("a", 0)
        assert story.last(StopWorkers).mode is StopMode.IN_PROCESS
        recover(story, ALL)
        story.start_all()


def test_restarts_in_place_can_be_turned_off() -> None:
    story = announced(policy=Policy(in_process_attempts_max=0))
    story.fail_alive("a", 0)
    assert story.last(StopWorkers).mode is StopMode.PROCESS


@pytest.mark.parametrize(
    ("asked", "level"), [(RestartAsked.PROCESS, RecoveryLevel.PROCESS), (RestartAsked.JOB, RecoveryLevel.JOB)]
)
def test_a_script_may_ask_for_more_and_the_gravest_wish_counts(asked: RestartAsked, level: RecoveryLevel) -> None:
    story = announced()
    story.fail_alive("a", 0, asked=RestartAsked.IN_PROCESS)
    assert story.last(StopWorkers).mode is StopMode.IN_PROCESS
    story.fail_alive("b", 2, asked=asked)
    story.fail_alive("b", 3, asked=RestartAsked.IN_PROCESS)
    start = recover(story, ALL)
    assert (start.level, start.ranks_replaced) == (level, None)


def test_a_rank_that_a_verdict_blames_is_condemned_although_it_stands_at_the_barrier() -> None:
    story = announced()
    story.feed(_blame(story, 3))
    assert story.last(StopWorkers).ranks == (3,)
    for node in story.gang.awaited:
        story.stop(node, at_barrier=ALL[node])
    start = story.last(StartWorkers)
    assert (start.level, start.ranks_replaced) == (RecoveryLevel.IN_PROCESS, (3,))


def test_a_hung_rank_alone_gets_a_new_process() -> None:
    story = announced()
    story.hang("b", 2, check="process_stopped")
    stop = story.last(StopWorkers)
    assert (stop.mode, stop.ranks) == (StopMode.IN_PROCESS, (2,))
    start = recover(story, {"a": (0, 1), "b": (3,)})
    assert (start.level, start.ranks_replaced) == (RecoveryLevel.IN_PROCESS, (2,))
    assert story.last(RecoveryPlanned).granularity == "rank"


def _blame(story: Story, rank: int):  # type: ignore[no-untyped-def]
    from fault_contracts.faults import Attribution, Culprit, FaultClassified
    from fault_contracts.payload import Reason

    return FaultClassified(
        fault_id="hang",
        job_id="job-1",
        topology_version=1,
        attribution=Attribution.UNKNOWN,
        cause="hang",
        culprit=Culprit(node_id="b", rank=rank),
        confidence=0.9,
        action=Action.RESTART_PROCESS,
        reasons=(Reason(rule_id="hang", sentence="it stands still"),),
        summary="",
        classified_at=story.now,
    )


def test_nobody_at_the_barrier_is_a_process_restart() -> None:
    story = announced()
    story.fail_alive("a", 0)
    start = recover(story, {})
    assert (start.level, start.ranks_replaced) == (RecoveryLevel.PROCESS, None)


def test_a_verdict_for_the_whole_job_beats_the_barrier() -> None:
    story = announced()
    story.fail_alive("a", 0)
    assert recover(story, ALL, Action.RESTART_JOB).level is RecoveryLevel.JOB


def test_the_stop_waits_for_the_barrier_before_a_node_counts_as_lost() -> None:
    story = announced()
    story.fail_alive("a", 0)
    assert story.gang.deadline_at is not None
    limit_s = (story.gang.deadline_at - story.now).total_seconds()
    assert limit_s == pytest.approx(0.5 + 10.0 + story.policy.stop_margin_s)


def test_wishes_combine_to_the_gravest() -> None:
    wishes = list(RestartAsked)
    assert [graver(one, RestartAsked.PROCESS) for one in wishes] == ["process", "process", "job"]


@pytest.mark.parametrize(
    ("replaced", "word"),
    [(None, "all"), ((), "none"), ((2,), "rank"), ((0, 2), "ranks"), ((2, 3), "node"), ((0, 1, 2, 3), "nodes"),
     (tuple(range(6)), "all")],
)  # fmt: skip
def test_granularity_in_a_word(replaced: tuple[int, ...] | None, word: str) -> None:
    rows = tuple(NodeRow(node_rank=NodeRank(n), node_id=NodeId(f"n{n}"), address="", nproc=2) for n in range(3))
    assert granularity(RankTable(topology_version=1, rows=rows), replaced) == word
