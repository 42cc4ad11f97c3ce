"""The versioned rank table: which node holds which node_rank, and what changed between two versions.

One row is one node. The ranks of a row follow from its place (training_topology.ranks), so a table of 12,500 rows
describes 100,000 ranks, and a delta carries nodes, not ranks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from training_topology.identity import NodeId, NodeRank, Rank
from training_topology.ranks import first_ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node of the gang.

    Attributes:
        node_rank: index in the gang.
        node_id: name of the node that holds it.
        address: host name or IP that peers reach it at.
        nproc: workers on it.
    """

    node_rank: NodeRank
    node_id: NodeId
    address: str
    nproc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTable:
    """All rows of one topology_version, in node_rank order without holes.

    Raises:
        ValueError: rows out of order, a hole, one node twice, or a node without workers.
    """

    topology_version: int
    rows: tuple[NodeRow, ...] = field(default=())
    _seats: Mapping[NodeId, int] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Place of each node: a table of thousands of nodes is asked for every one of them at every report."""
    _starts: Sequence[Rank] = field(default=(), init=False, repr=False, compare=False)
    """First rank of each node, and the count of ranks behind them."""

    def __post_init__(self) -> None:
        if self.topology_version < 0:
            raise ValueError(f"topology_version {self.topology_version} is negative")
        for place, row in enumerate(self.rows):
            if row.node_rank != place:
                raise ValueError(f"row {place} carries node_rank {row.node_rank}; rows are dense and in order")
        seats = {row.node_id: place for place, row in enumerate(self.rows)}
        if len(seats) != len(self.rows):
            raise ValueError("one node holds two node_ranks")
        object.__setattr__(self, "_seats", seats)
        starts = first_ranks([row.nproc for row in self.rows])
        end = starts[-1] + self.rows[-1].nproc if self.rows else 0
        object.__setattr__(self, "_starts", (*starts, Rank(end)))

    @property
    def nnodes(self) -> int:
        """Count of nodes."""
        return len(self.rows)

    @property
    def world_size(self) -> int:
        """Count of ranks."""
        return self._starts[-1]

    @property
    def node_ids(self) -> Iterable[NodeId]:
        """The nodes, in node_rank order."""
        return self._seats.keys()

    def row_of(self, node_id: NodeId) -> NodeRow | None:
        """The row of a node, or None when it is not in the gang."""
        place = self._seats.get(node_id)
        return None if place is None else self.rows[place]

    def seats(self, node_id: str) -> bool:
        """Whether a node is in the gang."""
        return node_id in self._seats

    def ranks_of(self, node_id: NodeId) -> range:
        """Global ranks of a node; empty when it is not in the gang."""
        row = self.row_of(node_id)
        if row is None:
            return range(0)
        start = self._starts[row.node_rank]
        return range(start, start + row.nproc)

    def node_of(self, rank: Rank) -> NodeId | None:
        """The node that holds a rank, or None outside the world."""
        if not 0 <= rank < self.world_size:
            return None
        return self.rows[bisect_right(self._starts, rank) - 1].node_id


def changed_rows(old: RankTable, new: RankTable) -> tuple[NodeRow, ...]:
    """Rows of `new` that an agent holding `old` does not have yet (the delta of a start command)."""
    known: Mapping[NodeRank, NodeRow] = {row.node_rank: row for row in old.rows}
    return tuple(row for row in new.rows if known.get(row.node_rank) != row)


def apply_rows(old: RankTable, *, topology_version: int, nnodes: int, rows: Iterable[NodeRow]) -> RankTable:
    """The table after a delta. Inverse of `changed_rows`.

    Raises:
        ValueError: the delta is not for `old`: a row is missing afterwards, so the whole table must be read.
    """
    merged = {row.node_rank: row for row in old.rows if row.node_rank < nnodes}
    merged.update({row.node_rank: row for row in rows})
    missing = [n for n in range(nnodes) if NodeRank(n) not in merged]
    if missing:
        raise ValueError(f"delta leaves node_rank {missing[0]} unknown ({len(missing)} missing); read the whole table")
    return RankTable(topology_version=topology_version, rows=tuple(merged[NodeRank(n)] for n in range(nnodes)))
