"""What a job that only observes is spared: said once for each cause, in the journal, and not done."""

from __future__ import annotations

from fault_contracts.ids import derived_id
from fault_contracts.payload import Reason
from fault_contracts.policy import PolicyMode
from fault_contracts.recovery import ActionWithheld
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.gang import Gang

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
