"""The job's policy at work in a plan: asked with the record's past, its waits kept, its limits ended."""

from __future__ import annotations

from datetime import timedelta

from fault_contracts.agent import RestartAsked
from fault_contracts.faults import Action, Attribution
from fault_contracts.recovery import JobOutcome
from fault_contracts.recovery_level import RecoveryLevel
from recovery_planner.domain.culprit import level_of
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.ending import end_job
from recovery_planner.domain.escalation import Answer, Fault, answer, higher
from recovery_planner.domain.incident import Verdict
from recovery_planner.domain.journal_entries import BACKOFF, tell_wait
from recovery_planner.domain.past_restarts import PastRestart, remembered
from recovery_planner.domain.withheld import observes


def asked_level(draft: Draft, verdict: Verdict | None) -> RecoveryLevel:
    """The least level that verdict and script ask for; in_process: as small as the gang allows."""
    if draft.incident.asked is RestartAsked.JOB:
        return RecoveryLevel.JOB
    if verdict is None or verdict.action is Action.DONT_RETRY_NOTIFY_USER:
        return RecoveryLevel.IN_PROCESS
    level = level_of(verdict.action)
    return RecoveryLevel.IN_PROCESS if level is RecoveryLevel.PROCESS else level


def answer_of(draft: Draft, verdict: Verdict | None) -> Answer:
    """What the policy makes of the open incident. A planned stop is no fault, and costs nothing."""
    level = asked_level(draft, verdict)
    if draft.incident.by_notice:
        return Answer(level=level)
    if observes(draft.gang):
        level = higher(level, RecoveryLevel.PROCESS)  # all ranks anew, as torchrun does
    return answer(
        Fault(
            attribution=Attribution.UNKNOWN if verdict is None else verdict.attribution,
            cause="" if verdict is None else verdict.cause,
            action=Action.RESTART_PROCESS if verdict is None else verdict.action,
            level=level,
        ),
        draft.gang.spec,
        draft.gang.past,
        now=draft.now,
    )


def waits_out(draft: Draft, decided: Answer) -> bool:
    """Whether the backoff is still running; then the record wakes up at its end."""
    until = draft.incident.mark_at + timedelta(seconds=decided.wait_s)
    if draft.now >= until:
        return False
    if draft.gang.deadline_at != until:
        draft.change(deadline_at=until)
        sentence = f"{decided.sentence}; the restart waits until {until.isoformat()}"
        tell_wait(draft, BACKOFF, draft.explain("policy.backoff", sentence))
    return True


def note_restart(draft: Draft, level: RecoveryLevel, verdict: Verdict | None) -> None:
    """Remember a restart that was decided; one that was planned is none."""
    if draft.incident.by_notice:
        return
    restart = PastRestart(
        at=draft.now,
        level=level,
        attribution=Attribution.UNKNOWN if verdict is None else verdict.attribution,
        cause="" if verdict is None else verdict.cause,
    )
    draft.change(past=remembered(draft.gang.past, restart))


def end_if_overdue(draft: Draft) -> bool:
    """End a job whose recovery takes longer than its policy allows."""
    until = draft.gang.fault_deadline_at
    if until is None or draft.now < until:
        return False
    verdict = draft.incident.verdict
    sentence = f"not training again {(draft.now - draft.incident.opened_at).total_seconds():.0f} s after the fault"
    reason = draft.explain("policy.fault_deadline", f"{sentence}; the policy allows {until.isoformat()}")
    end_job(draft, JobOutcome.FAILED_BUDGET, reason, summary=verdict.summary if verdict else "")
    return True


def capacity_wait_s(draft: Draft) -> float:
    """How long a hole waits for a node: the job's word, else the planner's setting."""
    policy = draft.gang.spec.policy
    own = None if policy is None else policy.capacity_wait_s
    return draft.policy.capacity_wait_s if own is None else own


def start_deadline_s(draft: Draft) -> float:
    """Until all agents must have started their ranks: the job's word, else the planner's setting."""
    policy = draft.gang.spec.policy
    own = None if policy is None else policy.start_deadline_s
    return draft.policy.start_deadline_s if own is None else own
