"""What an incident cost, phase by phase. Sums over the attempts, in seconds."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from fault_contracts.recovery import PhaseTimes
from recovery_planner.domain.incident import Incident
from recovery_planner.domain.incident_notes import waited


def elapsed_s(since: datetime, until: datetime) -> float:
    """Never negative: clocks of two machines may disagree by more than a phase lasts."""
    return max(0.0, (until - since).total_seconds())


def stopped(incident: Incident, now: datetime) -> Incident:
    """Every surviving agent stopped."""
    return replace(incident, stop_s=(incident.stop_s or 0.0) + elapsed_s(incident.mark_at, now), mark_at=now)


def planned(incident: Incident, now: datetime) -> Incident:
    """A plan was decided."""
    return replace(
        incident, plan_s=(incident.plan_s or 0.0) + elapsed_s(incident.mark_at, now), mark_at=now, all_started=False
    )


def started(incident: Incident, now: datetime) -> Incident:
    """Every agent started its ranks."""
    return replace(
        incident, start_s=(incident.start_s or 0.0) + elapsed_s(incident.mark_at, now), mark_at=now, all_started=True
    )


def resumed(incident: Incident, now: datetime) -> Incident:
    """Every node finished a step."""
    return replace(incident, first_step_s=elapsed_s(incident.mark_at, now), mark_at=now)


def cost(incident: Incident, now: datetime, *, checkpoint_step: int) -> PhaseTimes:
    """The bill. `checkpoint_step` is -1 when the last generation began from scratch."""
    lost = None
    if incident.step_before is not None:
        lost = max(0, incident.step_before - max(checkpoint_step, 0))
    return PhaseTimes(
        detect_s=elapsed_s(incident.fault_observed_at, incident.opened_at),
        stop_s=incident.stop_s,
        plan_s=incident.plan_s,
        wait_s=waited(incident.notes, now).wait_s,
        start_s=incident.start_s,
        first_step_s=incident.first_step_s,
        total_s=elapsed_s(incident.fault_observed_at, now),
        steps_lost=lost,
    )
