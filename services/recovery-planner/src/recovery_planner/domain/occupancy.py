"""Whether a job has ranks on a node, or may have: nothing is done to a node while that is so."""

from __future__ import annotations

from recovery_planner.domain.gang import Gang, Phase
from recovery_planner.domain.member import Standing


def may_have_ranks(gang: Gang, node_id: str) -> bool:
    """In doubt, yes. A node whose agent is gone has none that anybody could wait for."""
    member = gang.members.get(node_id)
    if member is None or gang.phase is Phase.ENDED or not member.is_there:
        return False
    seated = gang.is_seated(node_id)
    match gang.phase:
        case Phase.STARTING | Phase.RUNNING if seated:
            return True
        case Phase.STOPPING if seated:
            return node_id not in gang.stopped
        case Phase.DECIDING | Phase.WAITING if seated:
            # It has stopped, and what is not held may be given ranks with the next plan.
            return member.standing is Standing.PRESENT and not member.held
        case _:
            # A spare, or one that lost its place: whoever is not idle still has ranks of another generation.
            return not member.idle
