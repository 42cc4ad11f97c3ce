"""Which spare fills which hole, and why that one."""

from __future__ import annotations

from dataclasses import dataclass

from fault_contracts.payload import Reason
from recovery_planner.domain.gang import Gang
from recovery_planner.domain.member import Standing
from recovery_planner.domain.node_fitness import clean_first


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
    """Fill the holes in order of node_rank. A node that comes back takes its own node_rank first."""
    free = candidates(gang)
    holes = [row for row in gang.table.rows if not is_kept(gang, row.node_id)]
    moves: dict[int, str] = {}
    reasons: list[Reason] = []
    for row in holes:
        if row.node_id in free:
            free.remove(row.node_id)
            moves[row.node_rank] = row.node_id
            reasons.append(
                _reason(gang, "placement.returned", f"{row.node_id} is back and takes node_rank {row.node_rank}")
            )
    unfilled: list[int] = []
    for row in holes:
        if row.node_rank in moves:
            continue
        if not free:
            unfilled.append(row.node_rank)
            reasons.append(
                _reason(gang, "placement.no_spare", f"node_rank {row.node_rank} ({row.node_id}) has no spare to go to")
            )
            continue
        spare = free.pop(0)
        moves[row.node_rank] = spare
        member = gang.members.get(row.node_id)
        standing = "unknown" if member is None else str(member.standing)
        doubt = gang.members[spare].doubt
        chosen = f"though it has a problem ({doubt}): no other is free" if doubt else "the spare that came first"
        if not doubt and any(gang.members[other].arrival < gang.members[spare].arrival for other in free):
            chosen = "the first spare without a problem"
        reasons.append(
            _reason(
                gang,
                "placement.spare",
                f"{spare} takes node_rank {row.node_rank} from {row.node_id} ({standing}): {chosen}; {len(free)} left",
            )
        )
    return Placement(moves=moves, unfilled=tuple(unfilled), reasons=tuple(reasons))


def _reason(gang: Gang, rule_id: str, sentence: str) -> Reason:
    evidence = (gang.incident.incident_id,) if gang.incident else ()
    return Reason(rule_id=rule_id, sentence=sentence, evidence_ids=evidence)
