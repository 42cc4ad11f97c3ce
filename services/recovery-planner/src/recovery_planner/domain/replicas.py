"""Which nodes of a gang belong together: a gang may lose a replica as a whole, and never a part of one.

A replica is a group of nodes whose ranks share values of the label `dp`. Where the ranks told no such labels, it is as
many nodes as the policy says, in order of node_rank.
"""

from __future__ import annotations

from fault_contracts.policy import ElasticPolicy
from recovery_planner.domain.gang import Gang
from training_topology.rank_labels import unpack_labels

LABEL = "dp"


def replicas_of(gang: Gang, rules: ElasticPolicy) -> tuple[list[tuple[int, ...]], bool]:
    """node_ranks of each replica, in order of their first one; and whether labels told it."""
    labelled = _by_label(gang)
    if labelled is not None:
        return labelled, True
    nnodes, size = gang.table.nnodes, rules.replica_nodes
    if rules.nnodes_allowed:
        size = 1  # sizes are named one by one, so a node is the unit
    return [tuple(range(first, min(first + size, nnodes))) for first in range(0, nnodes, size)], False


def _by_label(gang: Gang) -> list[tuple[int, ...]] | None:
    """Nodes that share a value of `dp` stand and fall together; None: not every rank told one."""
    try:
        labels = unpack_labels(gang.labels)
    except ValueError:
        return None  # said where labels come in
    nproc = gang.spec.nproc_per_node
    values = [labels.get(rank, {}).get(LABEL) for rank in range(gang.table.world_size)]
    if not values or None in values:
        return None
    leader = list(range(gang.table.nnodes))

    def find(node: int) -> int:
        while leader[node] != node:
            leader[node] = leader[leader[node]]
            node = leader[node]
        return node

    first_of: dict[str | None, int] = {}
    for rank, value in enumerate(values):
        one, other = find(first_of.setdefault(value, rank // nproc)), find(rank // nproc)
        leader[max(one, other)] = min(one, other)
    groups: dict[int, list[int]] = {}
    for node in range(gang.table.nnodes):
        groups.setdefault(find(node), []).append(node)
    return [tuple(group) for _, group in sorted(groups.items())]
