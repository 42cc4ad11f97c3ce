"""When an entry happened, by its own word. Pure."""

from __future__ import annotations

from datetime import datetime

from fault_contracts.payload import Payload

_FIELDS = (
    "formed_at", "lost_at", "faulted_at", "opened_at", "held_at", "linked_at", "planned_at", "resumed_at", "closed_at",
    "ended_at", "withheld_at", "classified_at",
)  # fmt: skip


def moment_of(payload: Payload, otherwise: datetime) -> datetime:
    """The decider's own time; `otherwise` (when it was published) for a kind that has none."""
    for name in _FIELDS:
        at = getattr(payload, name, None)
        if isinstance(at, datetime):
            return at
    return otherwise
