"""The versioned rank table: which node holds which node_rank, and what changed between two versions.

One row is one node. The ranks of a row follow from its place (training_topology.ranks), so a table of 12,500 rows
describes 100,000 ranks, and a delta carries nodes, not ranks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, KeysView, Mapping
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


class _Index:
    """Room for what a table looks up often, worked out once: 12,500 rows are not searched for each report."""

    __slots__ = ("_places", "_starts")
    _places: dict[NodeId, int]
    _starts: list[Rank]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTable(_Index):
    """All rows of one topology_version, in node_rank order without holes.

    Raises:
        ValueError: rows out of order, a hole, or one node twice.
    """

    topology_version: int
    rows: tuple[NodeRow, ...] = field(default=())

    def __post_init__(self) -> None:
        if self.topology_version < 0:
            raise ValueError(f"topology_version {self.topology_version} is negative")
        for place, row in enumerate(self.rows):
            if row.node_rank != place:
                raise ValueError(f"row {place} carries node_rank {row.node_rank}; rows are dense and in order")
        if len(self._by_node()) != len(self.rows):
            raise ValueError("one node holds two node_ranks")

    @property
    def nnodes(self) -> int:
        """Count of nodes."""
        return len(self.rows)

    @property
    def world_size(self) -> int:
        """Count of ranks."""
        return self._first_ranks()[-1] + self.rows[-1].nproc if self.rows else 0

    @property
    def node_ids(self) -> KeysView[NodeId]:
        """Nodes, in node_rank order; asking whether one is among them takes no search."""
        return self._by_node().keys()

    def row_of(self, node_id: NodeId) -> NodeRow | None:
        """The row of a node, or None when it is not in the gang."""
        place = self._by_node().get(node_id)
        return None if place is None else self.rows[place]

    def ranks_of(self, node_id: NodeId) -> range:
        """Global ranks of a node; empty when it is not in the gang."""
        row = self.row_of(node_id)
        if row is None:
            return range(0)
        start = self._first_ranks()[row.node_rank]
        return range(start, start + row.nproc)

    def node_of(self, rank: Rank) -> NodeId | None:
        """The node that holds a rank, or None outside the world."""
        if not 0 <= rank < self.world_size:
            return None
        return self.rows[bisect_right(self._first_ranks(), rank) - 1].node_id

    def _by_node(self) -> dict[NodeId, int]:
        try:
            return self._places
        except AttributeError:
            # Written around `frozen`: it follows from the rows, so nobody can tell when it was worked out.
            places = {row.node_id: place for place, row in enumerate(self.rows)}
            object.__setattr__(self, "_places", places)
            return places

    def _first_ranks(self) -> list[Rank]:
        try:
            return self._starts
        except AttributeError:
            starts = first_ranks([row.nproc for row in self.rows])
            object.__setattr__(self, "_starts", starts)
            return starts


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
