"""What follows from the record as it stands, whatever came last: the order of reports does not matter."""

from __future__ import annotations

from fault_contracts.recovery import JobOutcome, TrainingResumed
from recovery_planner.domain import phases
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.ending import RECOVERED, close_incident, end_job, tell_owed
from recovery_planner.domain.gang import Phase
from recovery_planner.domain.gang_machine import Trigger
from recovery_planner.domain.gang_stop import fault, leave_behind
from recovery_planner.domain.member import Standing
from recovery_planner.domain.plan import form, plan
from recovery_planner.domain.policy_answer import capacity_wait_s, end_if_overdue, start_deadline_s
from recovery_planner.domain.preemption import has_left, stop_for_preemption
from recovery_planner.domain.regrow import is_planned, regrow
from recovery_planner.domain.withheld import is_let_be, let_be

MOVES_MAX = 8
"""Moves that can follow from one event: fault, stopped, planned, resumed, ended, with room. More would be a loop."""


def settle(draft: Draft) -> None:
    """Move the gang as far as its record allows.

    Raises:
        AssertionError: it does not come to rest.
    """
    for _ in range(MOVES_MAX):
        before = draft.gang.phase
        _settle_once(draft)
        if draft.gang.phase is before:
            return
    raise AssertionError(f"gang of job {draft.gang.job_id} does not come to rest")


def is_due(draft: Draft) -> bool:
    """The deadline of the phase has passed."""
    return draft.gang.deadline_at is not None and draft.now >= draft.gang.deadline_at


def _settle_once(draft: Draft) -> None:
    if draft.gang.phase is not Phase.ENDED and _is_abandoned(draft):
        reason = draft.explain("job.left", "the last agent of the job left")
        end_job(draft, JobOutcome.CANCELLED, reason)
        return
    if draft.gang.incident is not None and end_if_overdue(draft):
        return
    match draft.gang.phase:
        case Phase.FORMING:
            form(draft)
        case Phase.STARTING:
            _starting(draft)
            stop_for_preemption(draft)
        case Phase.RUNNING:
            if not _finish(draft):
                stop_for_preemption(draft)
                regrow(draft)
        case Phase.STOPPING:
            _stopping(draft)
        case Phase.DECIDING:
            verdict = draft.incident.verdict
            nothing_to_judge = has_left(draft) or is_planned(draft)
            if is_due(draft) or nothing_to_judge or (verdict is not None and not verdict.provisional):
                plan(draft)
        case Phase.WAITING:
            _waiting(draft)
        case Phase.ENDED:
            if is_due(draft):
                tell_owed(draft)


def _is_abandoned(draft: Draft) -> bool:
    members = draft.gang.members.values()
    if any(member.is_there for member in members):  # mostly the first one: this is asked after every event
        return False
    return any(member.standing is Standing.LEFT for member in members)


def _finish(draft: Draft) -> bool:
    gang = draft.gang
    if len(gang.completed) < gang.table.nnodes or not all(node in gang.completed for node in gang.nodes):
        return False
    reason = draft.explain("job.completed", f"all {gang.table.world_size} ranks ended with exit code 0")
    end_job(draft, JobOutcome.SUCCEEDED, reason)
    return True


def _starting(draft: Draft) -> None:
    if _finish(draft):
        return
    gang = draft.gang
    if len(gang.started) + len(gang.completed) < gang.table.nnodes and not is_due(draft):
        return  # of thousands of reports all but the last end here
    missing = [node for node in gang.nodes if node not in gang.started and node not in gang.completed]
    if missing:
        if is_due(draft):
            named = ", ".join(missing[:8])
            reason = draft.explain(
                "start.deadline",
                f"{len(missing)} nodes ({named}) did not start their ranks within {start_deadline_s(draft):g} s",
            )
            fault(draft, reason, node_id=missing[0], rank=None, observed_at=draft.now)
        return
    if gang.incident is not None and not gang.incident.all_started:
        draft.change(incident=phases.started(gang.incident, draft.now))
    if gang.deadline_at is not None:
        # All processes are there. A first step may take long (compilation, a large checkpoint), and has no limit here.
        draft.change(deadline_at=None)
    if gang.incident is not None:
        if not _waits_for_steps(draft):
            _resume(draft)
        elif is_let_be(draft):
            let_be(draft)
        else:
            return
    draft.move(Trigger.RESUMED)


def _waits_for_steps(draft: Draft) -> bool:
    gang = draft.gang
    return any(
        row.node_rank in gang.stepping and row.node_id not in gang.stepped and row.node_id not in gang.completed
        for row in gang.table.rows
    )


def _resume(draft: Draft) -> None:
    gang = draft.gang
    by_step = bool(gang.stepping)
    if by_step:
        draft.change(incident=phases.resumed(draft.incident, draft.now))
    reason = draft.explain(
        "gang.resumed",
        f"version {gang.table.topology_version} "
        + ("finished its first step on every node" if by_step else "runs on every node"),
    )
    draft.emit(
        TrainingResumed(
            incident_id=draft.incident.incident_id,
            job_id=gang.job_id,
            topology_version=gang.table.topology_version,
            step=gang.step_now if by_step else None,
            by_step=by_step,
            resumed_at=draft.now,
        )
    )
    close_incident(draft, RECOVERED, reason)


def _stopping(draft: Draft) -> None:
    if is_due(draft):
        leave_behind(draft)
    if draft.gang.awaits_somebody:
        return
    draft.change(incident=phases.stopped(draft.incident, draft.now))
    draft.explain("gang.stopped", "no reachable agent has ranks left")
    draft.move(Trigger.STOPPED, deadline_in_s=draft.policy.verdict_deadline_s)


def _waiting(draft: Draft) -> None:
    plan(draft)
    if draft.gang.phase is Phase.WAITING and is_due(draft):
        reason = draft.explain(
            "plan.no_capacity", f"no node came within {capacity_wait_s(draft):g} s for the holes of the gang"
        )
        verdict = draft.incident.verdict
        end_job(draft, JobOutcome.FAILED_NO_CAPACITY, reason, summary=verdict.summary if verdict else "")
