"""What the operator does about one TrainingJob: `reconcile(wish, memory, seen, now)`, and nothing else decides.

Pods are kept while ranks restart in place or as processes; that is between planner and launchers. A pod is replaced
when the cluster took it, its node is lost, its hardware is blamed, or its launcher died of something that is not the
job's end. How the job ends, its launchers say by their exit codes; the planner's record says why.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from recovery_planner.domain.kube_effects import ApplySupport, Decision, JobCondition, KubeEffect, Reason, TellEvent
from recovery_planner.domain.kube_job_decision import decided, earliest, later_than, limits_of, status_of
from recovery_planner.domain.kube_job_end import after_the_end, deadline_verdict, end_verdict
from recovery_planner.domain.kube_job_halts import ended, stalled, suspended
from recovery_planner.domain.kube_job_seen import Seen
from recovery_planner.domain.kube_job_spec import JobWish
from recovery_planner.domain.kube_job_status import JobMemory, Word, said
from recovery_planner.domain.kube_job_words import standing_words
from recovery_planner.domain.kube_launcher import PodEnd
from recovery_planner.domain.kube_seats import Seats, all_pods_away, seats_of

LOOK_EVERY_S = 30.0
"""A job that has pods is looked at so often although nothing was told: steps and restarts are read then."""
NO_CAPACITY_SENTENCE = "the planner found too few nodes for the gang"


def reconcile(wish: JobWish, memory: JobMemory, seen: Seen, now: datetime) -> Decision:
    """Decide. The same world gives the same decision; a decision that was carried out in part is completed."""
    if wish.deleting:
        return Decision(effects=(), rule_id="job.deleting", sentence="its pods go with it")
    memory = _heard(memory, seen)
    if memory.finished:
        return _as_decided(wish, memory, seen, after_the_end(wish, memory, seen, now))
    if seen.problem is not None:
        return stalled(wish, memory, seen, now)
    # Before anything else is asked: a job that is suspended in the moment of its success has succeeded.
    end = end_verdict(memory, seen) or deadline_verdict(wish, memory, now)
    if end is not None:
        return ended(wish, memory, seen, now, end)
    if wish.suspend:
        return suspended(wish, memory, seen, now)
    memory = _not_suspended(wish, memory, now)
    since = memory.try_since
    if since is None:
        return _begin_try(wish, memory, seen, now)
    if any(pod.end is PodEnd.NO_CAPACITY for pod in seen.pods):
        return _give_back(wish, memory, seen, now, Reason.NO_CAPACITY, NO_CAPACITY_SENTENCE)
    memory = _admit(wish, memory, seen, now)
    if memory.admitted_at is None and now >= since + timedelta(seconds=wish.admission_s):
        return _give_back(wish, memory, seen, now, Reason.ADMISSION_TIMED_OUT, seen.why_not_running(wish))
    return _tend(wish, memory, seen, now)


def _not_suspended(wish: JobWish, memory: JobMemory, now: datetime) -> JobMemory:
    """With the condition that says so; a job that was never suspended has it from the start."""
    before = memory.condition(JobCondition.SUSPENDED)
    if before and before.get("status") == "False":
        return memory
    reason = Reason.RESUMED if before else Reason.NOT_SUSPENDED
    word = Word(type=JobCondition.SUSPENDED, holds=False, reason=reason)
    return said(memory, (word,), generation=wish.generation, now=now)


def _heard(memory: JobMemory, seen: Seen) -> JobMemory:
    """What the planner says, as far as it knows anything."""
    gang = seen.gang
    if gang is None:
        return memory
    return replace(
        memory,
        restarts=max(gang.restarts, 0),
        last_fault=gang.fault or memory.last_fault,
        step=gang.step if gang.step is not None else memory.step,
    )


def _tend(wish: JobWish, memory: JobMemory, seen: Seen, now: datetime) -> Decision:
    """A try is under way: every seat has its pod, or gets one."""
    seats: Seats = seats_of(wish, memory, seen, now)
    if seats.memory.pod_failures > wish.pod_failures_max:
        end = Word(
            type=JobCondition.FAILED,
            holds=True,
            reason=Reason.POD_FAILURES,
            message=f"{seats.memory.pod_failures} pods failed, spec.podFailuresMax is {wish.pod_failures_max}; "
            f"the last one {seats.last_failure}",
        )
        return ended(wish, seats.memory, seen, now, end)
    words = standing_words(wish, seats.memory, seen)
    support: tuple[KubeEffect, ...] = (ApplySupport(),) if seats.creates else ()
    return decided(
        wish,
        said(seats.memory, words, generation=wish.generation, now=now),
        seen,
        events=(*_admission_event(wish, memory, seen), *seats.events),
        then=(*seats.deletes, *seats.adopts, *support, *seats.creates),
        look_at=earliest(
            now + timedelta(seconds=LOOK_EVERY_S),
            seats.look_at,
            *(later_than(now, limit) for limit in limits_of(wish, seats.memory)),
        ),
        rule_id="job.tended",
        sentence=f"{len(seats.creates)} pods created, {len(seats.deletes)} deleted, {len(seats.adopts)} adopted",
    )


def _begin_try(wish: JobWish, memory: JobMemory, seen: Seen, now: datetime) -> Decision:
    """Ask for all nodes, as soon as the wait is over and the pods of the try before are gone."""
    waits = memory.retry_at is not None and now < memory.retry_at
    left = all_pods_away(wish, seen, now) if not _adoptable(memory, seen) else ()
    gone = not seen.pods or _adoptable(memory, seen)
    if waits or not gone:
        words = standing_words(wish, memory, seen)
        return decided(
            wish,
            said(memory, words, generation=wish.generation, now=now),
            seen,
            then=left,
            look_at=later_than(now, memory.retry_at),
            rule_id="try.waits",
            sentence="waits for the next try" if waits else "the pods of the try before are not gone yet",
        )
    begun = memory.new_try(now)
    begun = replace(begun, started_at=begun.started_at or now)
    # The status first, alone: the next look creates the pods, and knows since when they have been asked for.
    return decided(
        wish,
        said(begun, standing_words(wish, begun, seen), generation=wish.generation, now=now),
        seen,
        then=(ApplySupport(),),
        look_at=now,
        rule_id="try.begun",
        sentence=f"try {begun.tries}: {wish.pods} pods are asked for",
    )


def _adoptable(memory: JobMemory, seen: Seen) -> bool:
    """Pods without a status that knows of them: it was lost, or they are from before. They are taken as they are."""
    return memory.tries == 0 and bool(seen.pods) and not any(pod.deleting or pod.ended for pod in seen.pods)


def _admit(wish: JobWish, memory: JobMemory, seen: Seen, now: datetime) -> JobMemory:
    if memory.admitted_at is None and seen.running >= wish.nnodes:
        return replace(memory, admitted_at=now)
    return memory


def _admission_event(wish: JobWish, memory: JobMemory, seen: Seen) -> tuple[KubeEffect, ...]:
    ready = memory.condition(JobCondition.PODS_READY)
    if memory.admitted_at is None or ready.get("status") == "True" or seen.running < wish.nnodes:
        return ()
    cause = f"{memory.tries}/{ready.get('lastTransitionTime', '')}"
    return (
        TellEvent(
            reason=Reason.ALL_PODS_RUNNING,
            warning=False,
            message=f"all {wish.nnodes} nodes of the gang are there",
            cause=f"ready/{cause}",
        ),
    )


def _give_back(wish: JobWish, memory: JobMemory, seen: Seen, now: datetime, reason: Reason, why: str) -> Decision:
    """All or nothing: too few came, so none stays."""
    if memory.tries >= wish.tries_max:
        end = Word(
            type=JobCondition.FAILED,
            holds=True,
            reason=reason,
            message=f"{why}; {memory.tries} tries were made, {wish.tries_max} are allowed",
        )
        return ended(wish, memory, seen, now, end)
    wait_s = min(wish.backoff_first_s * 2 ** min(max(memory.tries - 1, 0), 20), wish.backoff_max_s)
    after = memory.given_back(now + timedelta(seconds=wait_s))
    message = f"{why}; all pods are given back, the next try begins in {wait_s:.0f} s"
    words = (
        *standing_words(wish, after, seen),
        Word(type=JobCondition.PODS_READY, holds=False, reason=reason, message=message),
    )
    return decided(
        wish,
        said(after, words, generation=wish.generation, now=now),
        seen,
        events=(TellEvent(reason=reason, warning=True, message=message, cause=f"try/{memory.tries}"),),
        then=all_pods_away(wish, seen, now),
        look_at=after.retry_at,
        rule_id="try.given_back",
        sentence=message,
    )


def _as_decided(wish: JobWish, memory: JobMemory, seen: Seen, after: Decision) -> Decision:
    """The status of an ended job stays as it is."""
    return replace(after, status=status_of(wish, memory, seen))
