"""What a job that only observes is spared: said once for each cause, in the journal, and not done."""

from __future__ import annotations

from fault_contracts.ids import derived_id
from fault_contracts.payload import Reason
from fault_contracts.policy import PolicyMode
from fault_contracts.recovery import ActionWithheld
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.ending import FAILED, close_incident
from recovery_planner.domain.gang import Gang, Phase

WITHHELD_MAX = 64
"""Ids of what was said to be withheld, so that a redelivery says nothing again."""


def observes(gang: Gang) -> bool:
    """The job's policy wants ranks that die restarted, and everything else only recorded."""
    return gang.spec.policy is not None and gang.spec.policy.mode is PolicyMode.OBSERVE


def withhold(
    draft: Draft, action: str, reason: Reason, *, node_id: str = "", fault_id: str = "", cause: str = ""
) -> None:
    """Record that something would have been done; once, however often its cause is delivered."""
    gang = draft.gang
    key = derived_id(gang.job_id, action, gang.table.topology_version, node_id, fault_id or draft.cause_id, cause)
    if key in gang.withheld:
        return
    draft.change(withheld=(*gang.withheld, key)[-WITHHELD_MAX:])
    draft.emit(
        ActionWithheld(
            job_id=gang.job_id,
            incident_id=gang.incident.incident_id if gang.incident else "",
            topology_version=gang.table.topology_version,
            node_id=node_id,
            action=action,
            withheld_by="observe",
            fault_id=fault_id,
            cause=cause,
            reason=reason,
            withheld_at=draft.now,
        )
    )


def note_stuck(draft: Draft, reason: Reason) -> None:
    """The ranks that were started to end an incident stand still: their first step may never come."""
    incident = draft.gang.incident
    if draft.gang.phase is Phase.STARTING and incident is not None and incident.stuck is None:
        draft.change_incident(stuck=reason)


def is_let_be(draft: Draft) -> bool:
    """Nobody will do anything about ranks that stand still. A policy with a limit for faults ends the job by that."""
    return observes(draft.gang) and draft.incident.stuck is not None and draft.gang.fault_deadline_at is None


def let_be(draft: Draft) -> None:
    """Close the incident: all was done that this job wants done, and training did not resume."""
    stuck = draft.incident.stuck
    assert stuck is not None, "ranks that stand still, and it is not known why"
    said = f"version {draft.gang.table.topology_version} runs on every node and stands still: {stuck.sentence}"
    reason = draft.explain(
        "observe.let_be", f"{said}; the job only observes, nothing more is done", *stuck.evidence_ids
    )
    close_incident(draft, FAILED, reason)
