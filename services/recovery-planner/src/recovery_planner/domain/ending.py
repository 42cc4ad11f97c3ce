"""The end of a job: what its agents are told, and what the journal says."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from fault_contracts.commands import EndJob
from fault_contracts.faults import Attribution
from fault_contracts.payload import Fence, Reason
from fault_contracts.recovery import IncidentClosed, JobEnded, JobOutcome
from recovery_planner.domain import phases
from recovery_planner.domain.accounting import booked, charge_incident, incident_account, job_account
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.gang import Ending, operation_id
from recovery_planner.domain.gang_machine import Trigger

SUMMARY_MAX = 2_048
"""As EndJob.summary allows."""
ASKED_MAX = 16
"""Reports remembered that asked for an end. One that is forgotten and delivered once more costs one more EndJob."""
RECOVERED, FAILED = "recovered", "failed"


def end_job(draft: Draft, outcome: JobOutcome, reason: Reason, *, summary: str = "") -> None:
    """End the job: EndJob to the agents, then the incident's and the job's last words."""
    fence = draft.fence()
    ending = Ending(
        outcome=outcome,
        reason=reason,
        summary=summary[:SUMMARY_MAX],
        incident_id=fence.incident_id,
        attempt=fence.attempt,
        ended_at=draft.now,
        told_at=draft.now,
    )
    _tell(draft, ending)
    if draft.gang.incident is not None:
        close_incident(draft, RECOVERED if outcome is JobOutcome.SUCCEEDED else FAILED, reason)
    draft.change(books=booked(draft))
    draft.emit(
        JobEnded(
            job_id=draft.gang.job_id,
            outcome=outcome,
            topology_version=draft.gang.table.topology_version,
            restarts=draft.gang.restart_count,
            reason=reason,
            summary=ending.summary,
            account=job_account(draft.gang, draft.gang.books, draft.now),
            ended_at=draft.now,
        )
    )
    draft.move(Trigger.ENDED)
    draft.change(ending=ending)


def close_incident(draft: Draft, outcome: str, reason: Reason) -> None:
    """Close the open incident and say what it cost."""
    incident = draft.incident
    verdict = incident.verdict
    times = phases.cost(incident, draft.now, checkpoint_step=_start_step(draft))
    account = incident_account(draft.gang, incident, times, went_on=outcome == RECOVERED)
    charge_incident(draft, account, times)
    draft.emit(
        IncidentClosed(
            incident_id=incident.incident_id,
            job_id=draft.gang.job_id,
            outcome=outcome,
            topology_version=draft.gang.table.topology_version,
            attempts=incident.attempt,
            attribution=verdict.attribution if verdict else Attribution.UNKNOWN,
            cause=verdict.cause if verdict else "",
            phases=times,
            account=account,
            reason=reason,
            closed_at=draft.now,
        )
    )
    draft.change(incident=None)


def tell_again(draft: Draft, node_id: str, *, asked_by: str) -> None:
    """An agent of an ended job is still there: it missed the end. Repeat it, but not for every report.

    Whoever asks in the pause after an end may have come too late to hear that one. It gets the next, when the pause is
    over: it does not ask twice, and no clock but ours says whether it was there in time.

    Args:
        draft: of the ended job.
        node_id: whose agent it is.
        asked_by: names the report, so that one that is delivered again asks for nothing.
    """
    ending = _ending(draft)
    if asked_by in ending.asked or draft.gang.deadline_at is not None:
        draft.ignore("end.told", f"{node_id} reports to an ended job; it was told so, or is in a moment")
        return
    pause = timedelta(seconds=draft.policy.end_repeat_s)
    told_at = min(ending.told_at, draft.now)  # another leader's clock may have been ahead of ours
    draft.change(ending=replace(ending, asked=(*ending.asked, asked_by)[-ASKED_MAX:]))
    if draft.now - told_at < pause:
        draft.explain("end.owed", f"{node_id} reports to an ended job that was just told so; it is told again soon")
        draft.change(deadline_at=told_at + pause)
    else:
        _repeat(draft, f"{node_id} reports to an ended job; the end is sent again")


def tell_owed(draft: Draft) -> None:
    """The pause after the last end is over, and somebody has asked meanwhile."""
    _repeat(draft, "somebody asked since the end was sent last; it is sent again")


def _repeat(draft: Draft, why: str) -> None:
    ending = _ending(draft)
    draft.explain("end.repeated", why)
    _tell(draft, ending)
    draft.change(ending=replace(ending, told_at=draft.now), deadline_at=None)


def _ending(draft: Draft) -> Ending:
    assert draft.gang.ending is not None, f"{draft.gang.phase} without an ending"
    return draft.gang.ending


def _tell(draft: Draft, ending: Ending) -> None:
    job_id, version = draft.gang.job_id, draft.gang.table.topology_version
    draft.emit(
        EndJob(
            job_id=job_id,
            fence=Fence(topology_version=version, attempt=ending.attempt, incident_id=ending.incident_id, epoch=0),
            operation_id=operation_id(job_id, ending.incident_id, ending.attempt, "end_job", version),
            expires_at=draft.expires_at(draft.policy.end_ttl_s),
            outcome=ending.outcome,
            reason=ending.reason,
            summary=ending.summary,
        )
    )


def _start_step(draft: Draft) -> int:
    return draft.gang.starts[-1].step if draft.gang.starts else -1
