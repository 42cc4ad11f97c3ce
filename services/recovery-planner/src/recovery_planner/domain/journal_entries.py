"""Entries of the journal that no command follows from: another attempt begins, a plan has to wait."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fault_contracts.payload import Reason
from fault_contracts.recovery import AttemptOpened, RecoveryHeld
from recovery_planner.domain.accounting import note_wait
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.placement import Placement

NODE_RANKS_MAX = 1_024
"""As RecoveryHeld allows; a gang with more holes than that waits for a whole part of the machine."""
CAPACITY, BACKOFF = "capacity", "backoff"


def tell_attempt(draft: Draft, reason: Reason, *, node_id: str, rank: int | None, observed_at: datetime) -> None:
    """What an open incident had started broke as well."""
    incident = draft.incident
    draft.emit(
        AttemptOpened(
            incident_id=incident.incident_id,
            job_id=draft.gang.job_id,
            attempt=incident.attempt,
            topology_version=incident.fault_version,
            trigger=reason,
            node_id=node_id,
            rank=rank,
            fault_observed_at=min(observed_at, draft.now),
            opened_at=draft.now,
        )
    )


def tell_wait(draft: Draft, waits_for: str, reason: Reason, *, node_ranks: Sequence[int] = ()) -> None:
    """The gang stands still until a node comes or a time has passed; the deadline of the record says until when."""
    incident = draft.incident
    draft.emit(
        RecoveryHeld(
            incident_id=incident.incident_id,
            job_id=draft.gang.job_id,
            attempt=incident.attempt,
            topology_version=draft.gang.table.topology_version,
            waits_for=waits_for,
            node_ranks=tuple(node_ranks[:NODE_RANKS_MAX]),
            until=draft.gang.deadline_at,
            reason=reason,
            held_at=draft.now,
        )
    )
    note_wait(draft)


def tell_no_node(draft: Draft, placement: Placement) -> None:
    """Places of the gang have no node to go to; said in the words of the placement."""
    said = next((reason for reason in placement.reasons if reason.rule_id == "placement.no_spare"), None)
    count = len(placement.unfilled)
    reason = said or Reason(rule_id="placement.no_spare", sentence=f"{count} places of the gang have no node to go to")
    tell_wait(draft, CAPACITY, reason, node_ranks=placement.unfilled)
