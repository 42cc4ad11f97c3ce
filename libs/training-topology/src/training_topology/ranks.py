"""Rank arithmetic: nodes in node_rank order, each with its own nproc_per_node, ranks dense and in order."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from training_topology.identity import LocalRank, NodeRank, Rank


def first_ranks(nproc_by_node_rank: Sequence[int]) -> list[Rank]:
    """Global rank of local_rank 0 of each node, in node_rank order.

    Args:
        nproc_by_node_rank: worker count of each node; every entry at least 1.

    Raises:
        ValueError: an entry is below 1.
    """
    for node_rank, nproc in enumerate(nproc_by_node_rank):
        if nproc < 1:
            raise ValueError(f"node_rank {node_rank} has nproc_per_node {nproc}; at least 1 is needed")
    return [Rank(start) for start in accumulate(nproc_by_node_rank, initial=0)][:-1]


def ranks_of_node(nproc_by_node_rank: Sequence[int], node_rank: NodeRank) -> range:
    """Global ranks that live on one node."""
    start = first_ranks(nproc_by_node_rank)[node_rank]
    return range(start, start + nproc_by_node_rank[node_rank])


def locate(nproc_by_node_rank: Sequence[int], rank: Rank) -> tuple[NodeRank, LocalRank]:
    """The node and local index of a global rank.

    Raises:
        ValueError: the rank is outside 0..world_size-1.
    """
    if rank < 0:
        raise ValueError(f"rank {rank} is negative")
    start = 0
    for node_rank, nproc in enumerate(nproc_by_node_rank):
        if rank < start + nproc:
            return NodeRank(node_rank), LocalRank(rank - start)
        start += nproc
    raise ValueError(f"rank {rank} is outside the world of {start} ranks")
