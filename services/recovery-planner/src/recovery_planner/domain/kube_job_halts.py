"""When a TrainingJob stands still: suspended, stalled, or at its end."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from recovery_planner.domain.kube_effects import Decision, JobCondition, KubeEffect, Reason, TellEvent
from recovery_planner.domain.kube_job_decision import decided
from recovery_planner.domain.kube_job_seen import Seen
from recovery_planner.domain.kube_job_spec import JobWish
from recovery_planner.domain.kube_job_status import JobMemory, Word, said
from recovery_planner.domain.kube_seats import all_pods_away


def suspended(wish: JobWish, memory: JobMemory, seen: Seen, now: datetime) -> Decision:
    """No pods. Their launchers get SIGTERM, save a checkpoint, and leave; the next try goes on from it."""
    after = replace(memory.given_back(None), tries=0, started_at=None)
    words = (
        Word(type=JobCondition.SUSPENDED, holds=True, reason=Reason.SUSPEND_ASKED, message="spec.suspend is true"),
        Word(type=JobCondition.STALLED, holds=False, reason=Reason.ACCEPTED),
        Word(type=JobCondition.PODS_READY, holds=False, reason=Reason.SUSPEND_ASKED),
        Word(type=JobCondition.RUNNING, holds=False, reason=Reason.SUSPEND_ASKED),
        Word(type=JobCondition.RECOVERING, holds=False, reason=Reason.SUSPEND_ASKED),
    )
    events: tuple[KubeEffect, ...] = ()
    if not memory.holds(JobCondition.SUSPENDED):
        before = memory.condition(JobCondition.SUSPENDED).get("lastTransitionTime", "")
        events = (
            TellEvent(
                reason=Reason.SUSPEND_ASKED,
                warning=False,
                message=f"{len(seen.pods)} pods are given back; they have {wish.grace_s} s to save and stop",
                cause=f"suspend/{wish.generation}/{before}",
            ),
        )
    return decided(
        wish,
        said(after, words, generation=wish.generation, now=now),
        seen,
        events=events,
        then=all_pods_away(wish, seen, now),
        rule_id="job.suspended",
        sentence="spec.suspend is true",
    )


def stalled(wish: JobWish, memory: JobMemory, seen: Seen, now: datetime) -> Decision:
    """One condition, one event; what runs goes on running."""
    problem = seen.problem
    assert problem is not None, "the caller looked"
    return decided(
        wish,
        said(memory, stalled_words(problem.reason, problem.message), generation=wish.generation, now=now),
        seen,
        events=stalled_event(memory, problem.reason, problem.message),
        rule_id="job.stalled",
        sentence=problem.message,
        look_at=now + timedelta(seconds=problem.look_again_s),
    )


def stalled_words(reason: Reason, message: str) -> tuple[Word, ...]:
    """That nothing can be done, and why."""
    return (Word(type=JobCondition.STALLED, holds=True, reason=reason, message=message),)


def stalled_event(memory: JobMemory, reason: Reason, message: str) -> tuple[TellEvent, ...]:
    """Told when it begins, and when the reason changes."""
    before = memory.condition(JobCondition.STALLED)
    if before.get("status") == "True" and before.get("reason") == reason and before.get("message") == message:
        return ()
    cause = f"stalled/{reason}/{message}/{before.get('lastTransitionTime', '')}"
    return (TellEvent(reason=reason, warning=True, message=message, cause=cause),)


def ended(wish: JobWish, memory: JobMemory, seen: Seen, now: datetime, end: Word) -> Decision:
    """For good. What is left of the pods is cleaned up at the next look."""
    words = (
        end,
        Word(type=JobCondition.STALLED, holds=False, reason=Reason.ACCEPTED),
        Word(type=JobCondition.PODS_READY, holds=False, reason=end.reason),
        Word(type=JobCondition.RUNNING, holds=False, reason=end.reason),
        Word(type=JobCondition.RECOVERING, holds=False, reason=end.reason),
    )
    after = replace(memory, ended_at=now, retry_at=None)
    event = TellEvent(
        reason=end.reason, warning=end.type is JobCondition.FAILED, message=end.message, cause=f"end/{end.type}"
    )
    return decided(
        wish,
        said(after, words, generation=wish.generation, now=now),
        seen,
        events=(event,),
        look_at=now,
        rule_id=f"job.{str(end.type).lower()}",
        sentence=end.message,
    )


def unstalled(wish: JobWish, memory: JobMemory, seen: Seen, now: datetime) -> Decision:
    """Everything that was decided has been carried out: whatever stood in the way does not any more."""
    word = Word(type=JobCondition.STALLED, holds=False, reason=Reason.ACCEPTED)
    after = said(memory, (word,), generation=wish.generation, now=now)
    return decided(wish, after, seen, rule_id="job.unstalled", sentence="nothing stands in the way any more")
