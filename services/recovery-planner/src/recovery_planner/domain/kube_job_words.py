"""What the conditions of a job that goes on say: a table from pods and planner's phase to words."""

from __future__ import annotations

from recovery_planner.domain.kube_effects import JobCondition, Reason
from recovery_planner.domain.kube_job_seen import Seen
from recovery_planner.domain.kube_job_spec import JobWish
from recovery_planner.domain.kube_job_status import JobMemory, Word

_TRAINS = ("starting", "running")
_MENDS = ("stopping", "deciding", "waiting")
_ACCEPTED = Word(type=JobCondition.STALLED, holds=False, reason=Reason.ACCEPTED)


def standing_words(wish: JobWish, memory: JobMemory, seen: Seen) -> tuple[Word, ...]:
    """PodsReady, Running and Recovering; and Stalled, where nothing was said of it yet."""
    # What stalled stays so until everything that was decided has been carried out, see kube_job_halts.unstalled.
    first = () if memory.condition(JobCondition.STALLED) else (_ACCEPTED,)
    return (
        *first,
        _pods_ready(wish, memory, seen),
        *_training(wish, memory, seen),
    )


def _pods_ready(wish: JobWish, memory: JobMemory, seen: Seen) -> Word:
    type_ = JobCondition.PODS_READY
    if seen.running >= wish.nnodes and memory.admitted_at is not None:
        spares = seen.running - wish.nnodes
        return Word(
            type=type_,
            holds=True,
            reason=Reason.ALL_PODS_RUNNING,
            message=f"{wish.nnodes} nodes of the gang" + (f", {spares} spare" if wish.spares else ""),
        )
    if memory.try_since is None:
        before = memory.condition(type_)
        kept = before.get("reason") in (Reason.NO_CAPACITY, Reason.ADMISSION_TIMED_OUT)
        reason = Reason(before["reason"]) if kept else Reason.PODS_STARTING
        return Word(type=type_, holds=False, reason=reason, message=str(before.get("message", "")) if kept else "")
    reason = Reason.PODS_STARTING if memory.admitted_at is None else Reason.POD_MISSING
    waiting = next((pod for pod in seen.pods if not pod.running and pod.message), None)
    said = f"{min(seen.running, wish.nnodes)} of {wish.nnodes} run"
    return Word(
        type=type_,
        holds=False,
        reason=reason,
        message=said if waiting is None else f"{said}; {waiting.name}: {waiting.message}",
    )


def _training(wish: JobWish, memory: JobMemory, seen: Seen) -> tuple[Word, Word]:
    gang = seen.gang
    running, recovering = JobCondition.RUNNING, JobCondition.RECOVERING
    quiet = Word(type=recovering, holds=False, reason=Reason.NO_INCIDENT)
    if memory.admitted_at is None:
        return Word(type=running, holds=False, reason=Reason.GANG_FORMING), quiet
    if gang is None or gang.outcome:
        # Pods are all that is known: the bus is away, or the planner has not heard of this run yet.
        all_there = seen.running >= wish.nnodes
        message = "the planner's record cannot be read, or there is none yet"
        return Word(type=running, holds=all_there, reason=Reason.PLANNER_UNKNOWN, message=message), quiet
    if gang.incident or gang.phase in _MENDS:
        # A gang without an incident that waits for a node has lost it to a pre-emption: it recovers as well.
        reason = Reason.WAITING_FOR_NODE if gang.phase == "waiting" else Reason.INCIDENT_OPEN
        message = f"{gang.phase}; {gang.incident}" if gang.incident else gang.phase
        return (
            Word(type=running, holds=False, reason=Reason.NOT_TRAINING, message=gang.phase),
            Word(type=recovering, holds=True, reason=reason, message=message),
        )
    if gang.phase in _TRAINS:
        size = "" if gang.nnodes in (0, wish.nnodes) else f" on {gang.nnodes} of {wish.nnodes} nodes (elastic)"
        return Word(
            type=running, holds=True, reason=Reason.TRAINING, message=f"generation {gang.topology_version}{size}"
        ), quiet
    return Word(type=running, holds=False, reason=Reason.GANG_FORMING, message="launchers wait for each other"), quiet
