"""Who gets which node_rank: the first table of a job, and the table after a hole was filled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fault_contracts.recovery import NodeAssignment
from recovery_planner.domain.member import Member
from recovery_planner.domain.nearness import in_blocks
from training_topology.identity import NodeId, NodeRank
from training_topology.topology import NodeRow, RankTable


def row_for(node_rank: int, member: Member, nproc: int) -> NodeRow:
    """The row that seats a member."""
    return NodeRow(node_rank=NodeRank(node_rank), node_id=NodeId(member.node_id), address=member.address, nproc=nproc)


def first_table(members: Iterable[Member], *, nnodes: int, nproc: int, topology_version: int) -> RankTable | None:
    """Seats in order of arrival, after those who asked for a node_rank (`--node-rank`); None when too few are there.

    Who comes first gets a seat; which one, is by where its node stands, so that neighbours in rank are near (nearness).
    Two who ask for the same one: the first gets it, the second is seated as if it had not asked.
    """
    waiting = sorted(members, key=lambda member: member.arrival)
    if len(waiting) < nnodes:
        return None
    clean = [member for member in waiting if not member.doubt]
    if len(clean) >= nnodes:
        waiting = clean  # a node with a problem waits as a spare while others are free
    seats: dict[int, Member] = {}
    for member in waiting:
        wanted = member.node_rank_wanted
        if wanted is not None and wanted < nnodes:
            seats.setdefault(wanted, member)
    taken = {member.node_id for member in seats.values()}
    free = [member for member in waiting if member.node_id not in taken][: nnodes - len(seats)]
    in_order = iter(in_blocks(free))
    for node_rank in range(nnodes):
        if node_rank not in seats:
            seats[node_rank] = next(in_order)
    rows = tuple(row_for(node_rank, seats[node_rank], nproc) for node_rank in range(nnodes))
    return RankTable(topology_version=topology_version, rows=rows)


def next_table(table: RankTable, members: Mapping[str, Member], moves: Mapping[int, str]) -> RankTable:
    """The next version: survivors keep their node_rank, each move puts a node into a hole."""
    rows = []
    for row in table.rows:
        member = members[moves.get(row.node_rank, row.node_id)]
        same = member.node_id == row.node_id and member.address == row.address
        rows.append(row if same else row_for(row.node_rank, member, row.nproc))
    return RankTable(topology_version=table.topology_version + 1, rows=tuple(rows))


def seated_table(table: RankTable, members: Mapping[str, Member], seats: Iterable[str], *, nproc: int) -> RankTable:
    """The next version with another number of rows: these nodes, in this order."""
    rows = tuple(row_for(node_rank, members[node_id], nproc) for node_rank, node_id in enumerate(seats))
    return RankTable(topology_version=table.topology_version + 1, rows=rows)


def as_assignments(rows: Iterable[NodeRow]) -> tuple[NodeAssignment, ...]:
    """Rows as they travel in commands."""
    return tuple(
        NodeAssignment(node_rank=row.node_rank, node_id=row.node_id, address=row.address, nproc=row.nproc)
        for row in rows
    )
