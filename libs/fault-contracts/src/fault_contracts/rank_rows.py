"""The rows of a start, however they travel: few of them readable, many of them packed."""

from __future__ import annotations

from fault_contracts.commands import StartWorkers
from training_topology.identity import NodeId, NodeRank
from training_topology.packed_rows import unpack_rows
from training_topology.topology import NodeRow


def rows_of(start: StartWorkers) -> tuple[NodeRow, ...]:
    """All rows that a start carries.

    Raises:
        ValueError: packed ones that are damaged.
    """
    if start.rows_packed:
        return unpack_rows(start.rows_packed)
    return tuple(
        NodeRow(node_rank=NodeRank(row.node_rank), node_id=NodeId(row.node_id), address=row.address, nproc=row.nproc)
        for row in start.rows
    )
