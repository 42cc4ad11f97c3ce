"""The planner's record of a job, as far as the operator needs it."""

from __future__ import annotations

from recovery_planner.domain.gang import Gang
from recovery_planner.domain.kube_pods import GangView
from recovery_planner.domain.member import Standing

SENTENCE_LENGTH_MAX = 300


def gang_view(gang: Gang) -> GangView:
    """What of it decides about pods, and what people want to read in the status."""
    verdict = gang.incident.verdict if gang.incident is not None else None
    fault = ""
    if verdict is not None and not verdict.provisional:
        sentence = verdict.summary or (verdict.reasons[0].sentence if verdict.reasons else "")
        fault = f"{verdict.attribution}/{verdict.cause}: {sentence}"
    standing = {Standing.LOST: set[str](), Standing.LEFT: set[str](), Standing.CONDEMNED: set[str]()}
    for member in gang.members.values():
        if member.standing in standing:
            standing[member.standing].add(member.node_id)
    ending = gang.ending
    return GangView(
        phase=str(gang.phase),
        topology_version=gang.table.topology_version,
        nnodes=len(gang.nodes),
        restarts=gang.restart_count,
        incident=gang.incident.trigger.sentence[:SENTENCE_LENGTH_MAX] if gang.incident is not None else "",
        # Whoever left has stopped its ranks first; whoever is lost is fenced.
        lost=frozenset(standing[Standing.LOST] | standing[Standing.LEFT]),
        condemned=frozenset(standing[Standing.CONDEMNED]),
        outcome="" if ending is None else str(ending.outcome),
        ended_reason="" if ending is None else (ending.summary or ending.reason.sentence)[:SENTENCE_LENGTH_MAX],
        ended_at=None if ending is None else ending.ended_at,
        fault=fault[:SENTENCE_LENGTH_MAX],
        step=gang.step_max,
    )
