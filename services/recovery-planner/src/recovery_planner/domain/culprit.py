"""Whom a verdict blames, and what that costs the node: its place, when a spare can take it."""

from __future__ import annotations

from dataclasses import replace

from fault_contracts.faults import Action
from fault_contracts.recovery_level import RecoveryLevel
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.elastic import can_do_without
from recovery_planner.domain.incident import Verdict
from recovery_planner.domain.member import Standing
from recovery_planner.domain.placement import Placement, place


def level_of(action: Action) -> RecoveryLevel:
    """How heavy the recovery is."""
    match action:
        case Action.RESTART_PROCESS | Action.WAIT_OR_IGNORE:
            # The ranks are stopped by now, so even "wait" needs new processes.
            return RecoveryLevel.PROCESS
        case Action.RESTART_JOB | Action.RESET_GPU | Action.REBOOT_NODE | Action.REPLACE_NODE:
            return RecoveryLevel.JOB
        case Action.DONT_RETRY_NOTIFY_USER:
            return RecoveryLevel.FAILED


def blamed_node(verdict: Verdict) -> str:
    """The node whose hardware a verdict blames; empty: none."""
    gives_up = level_of(verdict.action) is RecoveryLevel.JOB and verdict.action is not Action.RESTART_JOB
    return verdict.culprit_node_id if gives_up else ""


def blame_late(draft: Draft, verdict: Verdict) -> bool:
    """A verdict that comes when its incident is planned or over still costs its node the place, at the next stop."""
    node_id = blamed_node(verdict)
    member = draft.gang.members.get(node_id)
    if member is None or member.blamed or member.standing is not Standing.PRESENT:
        return False
    draft.change_member(replace(member, blamed=verdict.cause))
    sentence = f"{verdict.cause} blames {node_id}, too late for the plan; it gives its place up at the next stop"
    draft.explain("verdict.late_blame", sentence, verdict.fault_id)
    return True


def place_without_culprits(draft: Draft, verdict: Verdict | None) -> Placement:
    """Fill the holes; a node whose hardware is blamed gives its place up when a spare can take it."""
    gang = draft.gang
    causes = {member.node_id: member.blamed for member in gang.members.values() if member.blamed}
    if verdict is not None and blamed_node(verdict):
        causes[blamed_node(verdict)] = verdict.cause
    for node_id in sorted(causes):
        if gang.is_present(node_id) and gang.is_seated(node_id):
            condemn(draft, node_id, causes[node_id])
    return place(draft.gang)


def condemn(draft: Draft, node_id: str, cause: str, *, why: str = "") -> None:
    """A seated node gives its place up, unless nobody could take it. `why`: in words, where no verdict blames it."""
    why = why or f"{cause} blames {node_id}"
    gang = draft.gang
    member = replace(gang.members[node_id], standing=Standing.CONDEMNED, blamed=cause)
    reduced = replace(gang, members={**gang.members, node_id: member})
    without = place(reduced)
    if without.unfilled and not place(gang).unfilled and not can_do_without(reduced, without):
        draft.explain("placement.kept", f"{why}, but no spare can take its place; it is kept")
        return
    draft.change_member(member)
    draft.explain("placement.condemned", f"{why}; this job does not use it again")
