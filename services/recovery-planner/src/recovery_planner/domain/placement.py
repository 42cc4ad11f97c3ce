"""Which spare fills which hole, and why that one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fault_contracts.payload import Reason
from recovery_planner.domain.gang import Gang
from recovery_planner.domain.member import Member, Standing
from recovery_planner.domain.nearness import stand_of
from recovery_planner.domain.node_fitness import clean_first
from recovery_planner.domain.placement_cost import Seats
from recovery_planner.domain.placement_search import Choice, Search
from training_topology.layout import UNKNOWN_LAYOUT, Layout, layout_of
from training_topology.topology import NodeRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """What to do with the holes.

    Attributes:
        moves: node_rank → node that takes it.
        unfilled: node_ranks that no node is there for, rising.
        reasons: one sentence a hole.
    """

    moves: dict[int, str]
    unfilled: tuple[int, ...]
    reasons: tuple[Reason, ...]


def is_kept(gang: Gang, node_id: str) -> bool:
    """A survivor: its agent can be counted on and has no ranks of the broken generation left."""
    return gang.is_present(node_id) and node_id in gang.stopped


def candidates(gang: Gang) -> list[str]:
    """Nodes that may fill a hole: present, idle, not a survivor; without a problem first, in order of arrival."""
    kept = {node for node in gang.nodes if is_kept(gang, node)}
    able = [
        member
        for member in gang.members.values()
        if member.standing is Standing.PRESENT and member.idle and member.node_id not in kept
    ]
    return [member.node_id for member in clean_first(able)]


def place(gang: Gang) -> Placement:
    """Fill the holes. A node that comes back takes its own node_rank first, the others are chosen by what they cost."""
    free = candidates(gang)
    holes = [row for row in gang.table.rows if not is_kept(gang, row.node_id)]
    moves: dict[int, str] = {}
    reasons: list[Reason] = []
    back = {row.node_id for row in holes}.intersection(free)
    for row in holes:
        if row.node_id in back:
            moves[row.node_rank] = row.node_id
            reasons.append(
                _reason(gang, "placement.returned", f"{row.node_id} is back and takes node_rank {row.node_rank}")
            )
    able = [gang.members[node_id] for node_id in free if node_id not in back]
    left_over = [row for row in holes if row.node_rank not in moves]
    chosen = {choice.node_rank: choice for choice in _choose(gang, left_over, able, moves)}
    unfilled: list[int] = []
    for number, row in enumerate(left_over):
        choice = chosen.get(row.node_rank)
        if choice is None:
            unfilled.append(row.node_rank)
            sentence = f"node_rank {row.node_rank} ({row.node_id}) has no spare to go to"
            reasons.append(_reason(gang, "placement.no_spare", sentence))
            continue
        moves[row.node_rank] = choice.node_id
        member = gang.members.get(row.node_id)
        standing = "unknown" if member is None else str(member.standing)
        sentence = f"{choice.node_id} takes node_rank {row.node_rank} from {row.node_id} ({standing}): {choice.why}"
        reasons.append(_reason(gang, "placement.spare", f"{sentence}; {len(able) - number - 1} left"))
    return Placement(moves=moves, unfilled=tuple(unfilled), reasons=tuple(reasons))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """A spare for a hole, with the reason in words."""

    node_rank: int
    node_id: str
    why: str


def _choose(gang: Gang, holes: Sequence[NodeRow], able: Sequence[Member], moves: Mapping[int, str]) -> list[_Chosen]:
    """Spares for the holes: by cost where nodes said where they stand, else in order of arrival."""
    if not holes or not able:
        return []
    if not any(member.labels for member in able):
        return [_first_come(hole, able[number:]) for number, hole in enumerate(holes[: len(able)])]
    seats = {
        int(row.node_rank): stand_of(gang.members[node_id].labels)
        for row in gang.table.rows
        if (node_id := moves.get(row.node_rank, row.node_id)) in gang.members
    }
    for hole in holes:
        seats.pop(int(hole.node_rank), None)
    search = Search(Seats(_layout(gang), seats), able)
    return [
        _Chosen(node_rank=choice.node_rank, node_id=choice.node_id, why=_price(choice))
        for choice in search.fill([int(hole.node_rank) for hole in holes])
    ]


def _first_come(hole: NodeRow, free: Sequence[Member]) -> _Chosen:
    spare = free[0]
    why = "the spare that came first"
    if spare.doubt:
        why = f"though it has a problem ({spare.doubt}): no other is free"
    elif any(other.arrival < spare.arrival for other in free):
        why = "the first spare without a problem"
    return _Chosen(node_rank=int(hole.node_rank), node_id=spare.node_id, why=why)


def _price(choice: Choice) -> str:
    here = f"it stands in {choice.stand} and costs {choice.cost}"
    if choice.next_cost is None:
        return f"{here}, no other is free elsewhere"
    return f"{here}, {choice.next_node_id} would cost {choice.next_cost}"


def _layout(gang: Gang) -> Layout:
    try:
        return layout_of(gang.labels, nproc=gang.spec.nproc_per_node)
    except ValueError:
        # Said where labels come in (labels.damaged); a job is not left without a spare for them.
        return UNKNOWN_LAYOUT


def _reason(gang: Gang, rule_id: str, sentence: str) -> Reason:
    evidence = (gang.incident.incident_id,) if gang.incident else ()
    return Reason(rule_id=rule_id, sentence=sentence[:2_048], evidence_ids=evidence)
