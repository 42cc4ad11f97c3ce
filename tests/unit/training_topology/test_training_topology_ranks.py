"""Ranks are dense and in order of node_rank."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_topology.identity import NodeRank, Rank
from training_topology.ranks import first_ranks, locate, ranks_of_node

GANGS = st.lists(st.integers(1, 16), min_size=1, max_size=20)


@given(GANGS)
def test_every_rank_has_exactly_one_place(nproc: list[int]) -> None:
    places = [locate(nproc, Rank(rank)) for rank in range(sum(nproc))]
    assert len(set(places)) == sum(nproc)
    for rank, (node_rank, local_rank) in enumerate(places):
        assert first_ranks(nproc)[node_rank] + local_rank == rank
        assert rank in ranks_of_node(nproc, node_rank)


@given(GANGS)
def test_the_ranks_of_the_nodes_are_the_world_in_order(nproc: list[int]) -> None:
    world = [rank for node in range(len(nproc)) for rank in ranks_of_node(nproc, NodeRank(node))]
    assert world == list(range(sum(nproc)))


@pytest.mark.parametrize("rank", [-1, 6, 100])
def test_a_rank_outside_the_world_is_an_error(rank: int) -> None:
    with pytest.raises(ValueError, match=str(rank)):
        locate([2, 4], Rank(rank))


@pytest.mark.parametrize("nproc", [[0], [2, -1]])
def test_a_node_without_workers_is_an_error(nproc: list[int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        first_ranks(nproc)


def test_no_nodes_no_ranks() -> None:
    assert first_ranks([]) == []
    with pytest.raises(ValueError, match="world of 0"):
        locate([], Rank(0))
