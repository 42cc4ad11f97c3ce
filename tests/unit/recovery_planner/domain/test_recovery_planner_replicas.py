"""Which nodes leave together."""

from elastic_story import label, running

from recovery_planner.domain.elastic import elastic_rules
from recovery_planner.domain.replicas import replicas_of


def groups(nnodes: int, *labels: str, nproc: int = 1, **rules: object) -> tuple[list[tuple[int, ...]], bool]:
    story = running(nnodes, nproc=nproc, **rules)
    if labels:
        label(story, *labels)
    found = elastic_rules(story.gang)
    assert found is not None
    return replicas_of(story.gang, found)


def test_without_labels_as_many_as_the_policy_says() -> None:
    assert groups(4, replica_nodes=2) == ([(0, 1), (2, 3)], False)


def test_nodes_that_share_a_replica_stand_together() -> None:
    assert groups(4, "0", "1", "1", "0") == ([(0, 3), (1, 2)], True)


def test_stages_of_several_replicas_on_the_same_nodes_are_one_group() -> None:
    assert groups(2, "0", "1", "0", "1", nproc=2) == ([(0, 1)], True)


def test_a_node_with_replicas_of_its_own_is_one() -> None:
    assert groups(2, "0", "1", "2", "3", nproc=2) == ([(0,), (1,)], True)


def test_labels_that_not_every_rank_told_do_not_count() -> None:
    assert groups(3, "0", "1") == ([(0,), (1,), (2,)], False)
