"""How a job ends, and what happens to its pods and to the object after that.

The launchers' exit codes say that it ended; the planner's record says why. The record alone ends nothing here: it may
be of a run before (a suspended job's), and agents that are there are told by the planner itself.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from recovery_planner.domain.kube_effects import (
    Decision,
    DeleteJob,
    DeletePod,
    JobCondition,
    KubeEffect,
    Reason,
    TellEvent,
)
from recovery_planner.domain.kube_job_seen import Seen
from recovery_planner.domain.kube_job_spec import Cleanup, JobWish
from recovery_planner.domain.kube_job_status import JobMemory, Word
from recovery_planner.domain.kube_launcher import PodEnd
from recovery_planner.domain.kube_pods import GangView, PodView

LINGER_S = 60.0
"""Launchers of an ended job leave by themselves; what still runs after it is deleted."""

OUTCOMES = {
    "succeeded": Reason.JOB_SUCCEEDED,
    "failed_user": Reason.USER_FAULT,
    "failed_budget": Reason.RESTART_BUDGET,
    "failed_no_capacity": Reason.NO_CAPACITY,
    "cancelled": Reason.CANCELLED,
}


def end_verdict(memory: JobMemory, seen: Seen) -> Word | None:
    """The condition that ends the job; None while it goes on."""
    gang = _of_this_try(seen.gang, memory)
    if pod := _first(seen, PodEnd.SUCCEEDED):
        if gang is not None and gang.outcome not in ("", "succeeded"):
            return _failed(OUTCOMES.get(gang.outcome, Reason.JOB_FAILED), gang.ended_reason or gang.outcome)
        return Word(
            type=JobCondition.SUCCEEDED,
            holds=True,
            reason=Reason.JOB_SUCCEEDED,
            message=f"{pod.name} ended with exit code 0",
        )
    if pod := _first(seen, PodEnd.REFUSED):
        return _failed(Reason.LAUNCHER_REFUSED, f"{pod.name} ended with exit code {pod.exit_code}: {pod.message}")
    if (pod := _first(seen, PodEnd.JOB_FAILED)) and not is_only_its_own(pod, seen.gang):
        if gang is not None and gang.outcome:
            return _failed(OUTCOMES.get(gang.outcome, Reason.JOB_FAILED), gang.ended_reason or gang.outcome)
        return _failed(Reason.JOB_FAILED, f"{pod.name} ended with exit code 1: {pod.message}")
    return None


def deadline_verdict(wish: JobWish, memory: JobMemory, now: datetime) -> Word | None:
    """The job was active for longer than its owner allows; a suspended one is not active."""
    if wish.active_s is None or memory.started_at is None or wish.suspend:
        return None
    if now < memory.started_at + timedelta(seconds=wish.active_s):
        return None
    return _failed(Reason.DEADLINE_EXCEEDED, f"active for longer than {wish.active_s:.0f} s")


def is_only_its_own(pod: PodView, gang: GangView | None) -> bool:
    """Exit code 1 while the planner's record of the job goes on: that launcher crashed, and the job did not end."""
    return pod.end is PodEnd.JOB_FAILED and gang is not None and gang.topology_version > 0 and not gang.outcome


def after_the_end(wish: JobWish, memory: JobMemory, seen: Seen, now: datetime) -> Decision:
    """Clean up as asked, then, where it has a time to live, the object goes."""
    ended_at = memory.ended_at or now
    linger = ended_at + timedelta(seconds=LINGER_S)
    failed_for = memory.condition(JobCondition.FAILED).get("reason")
    at_once = failed_for in (Reason.DEADLINE_EXCEEDED, Reason.POD_FAILURES, Reason.NO_CAPACITY)
    expires = None if wish.ttl_s is None else ended_at + timedelta(seconds=wish.ttl_s)
    if expires is not None and now >= expires:
        event = TellEvent(
            reason=Reason.EXPIRED,
            warning=False,
            message=f"ended more than {wish.ttl_s:.0f} s ago (spec.ttlSecondsAfterFinished)",
            cause="expired",
        )
        return Decision(effects=(event, DeleteJob(uid=wish.uid)), rule_id="job.expired", sentence=event.message)
    doomed = _doomed(wish, seen, lingered=at_once or now >= linger)
    effects: list[KubeEffect] = [DeletePod(name=pod.name, uid=pod.uid) for pod in doomed]
    waits = linger if now < linger and not at_once and seen.running else None
    look_at = min((each for each in (waits, expires) if each is not None), default=None)
    return Decision(
        effects=tuple(effects),
        look_at=look_at,
        rule_id="job.cleaned" if effects else "job.ended",
        sentence=f"cleanup {wish.cleanup}: {len(effects)} pods deleted",
    )


def _doomed(wish: JobWish, seen: Seen, *, lingered: bool) -> tuple[PodView, ...]:
    there = tuple(pod for pod in seen.pods if not pod.deleting)
    match wish.cleanup:
        case Cleanup.NONE:
            return ()
        case Cleanup.ALL:
            return tuple(pod for pod in there if pod.ended or lingered)
        case Cleanup.RUNNING:
            return tuple(pod for pod in there if not pod.ended and lingered)


def _of_this_try(gang: GangView | None, memory: JobMemory) -> GangView | None:
    """The record, unless it ended before this try began."""
    if gang is None or gang.ended_at is None or memory.try_since is None:
        return gang
    return gang if gang.ended_at >= memory.try_since else None


def _first(seen: Seen, end: PodEnd) -> PodView | None:
    return next((pod for pod in seen.pods if pod.end is end), None)


def _failed(reason: Reason, message: str) -> Word:
    return Word(type=JobCondition.FAILED, holds=True, reason=reason, message=message)
