"""What ends of ranks mean for the node."""

from node_agent.domain.worker_group import EndKind, GroupStatus, WorkerGroup
from training_topology.identity import LocalRank, Rank


def group(nproc: int = 3) -> WorkerGroup:
    return WorkerGroup(topology_version=2, first_rank=Rank(4), nproc=nproc)


def test_all_clean_ends_complete_the_group_with_the_last_one() -> None:
    current = group()
    kinds = []
    for local_rank in (2, 0, 1):
        step = current.after_exit(LocalRank(local_rank), exit_code=0)
        kinds.append(step.kind)
        current = step.group
    assert kinds == [EndKind.RANK_COMPLETED, EndKind.RANK_COMPLETED, EndKind.ALL_COMPLETED]
    assert current.status is GroupStatus.COMPLETED
    assert current.first_failure is None


def test_failures_are_counted_in_their_order_and_the_first_is_kept() -> None:
    first = group().after_exit(LocalRank(1), exit_code=None)
    second = first.group.after_exit(LocalRank(0), exit_code=3)
    assert (first.kind, first.ordinal) == (EndKind.RANK_FAILED, 0)
    assert (second.kind, second.ordinal) == (EndKind.RANK_FAILED, 1)
    assert second.group.first_failure == 1
    assert second.group.status is GroupStatus.FAILED


def test_a_clean_end_after_a_failure_does_not_complete_the_group() -> None:
    current = group(2).after_exit(LocalRank(0), exit_code=1).group
    step = current.after_exit(LocalRank(1), exit_code=0)
    assert step.kind is EndKind.RANK_COMPLETED
    assert step.group.status is GroupStatus.FAILED


def test_a_second_end_of_a_rank_and_a_foreign_rank_change_nothing() -> None:
    current = group().after_exit(LocalRank(0), exit_code=1).group
    for stranger in (0, 3, -1):
        step = current.after_exit(LocalRank(stranger), exit_code=0)
        assert (step.kind, step.group) == (EndKind.REPEATED, current)


def test_global_ranks_follow_the_first() -> None:
    assert [group().rank_of(LocalRank(place)) for place in range(3)] == [4, 5, 6]
