"""A checkpoint that the same fault follows at once is stepped over: the one before it is tried, within a limit.

A poisoned checkpoint looks like a fault of the user: the same exception, or a loss that is not a number, right after
the load. The judge then says that a retry cannot help, and from this checkpoint it cannot.
That it is not chosen again needs no memory: whatever older generations saved behind a start is void (`checkpoint`).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from fault_contracts.agent import OomKill, WorkerExited
from fault_contracts.faults import Action, Attribution
from fault_contracts.health import RankCheck
from fault_contracts.policy import CheckpointPolicy
from fault_contracts.rank_faults import RanksFaulted
from fault_contracts.recovery_level import RecoveryLevel
from recovery_planner.domain.checkpoint import ChosenCheckpoint, choose
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.escalation import Answer, higher
from recovery_planner.domain.gang import Gang
from recovery_planner.domain.incident import Verdict
from recovery_planner.domain.load_trial import FaultSign, LoadTrial, PastFault, fingerprint_of, with_sign
from recovery_planner.domain.withheld import observes

SENT_FROM_OUTSIDE = frozenset({1, 2, 9, 15})
"""SIGHUP, SIGINT, SIGKILL, SIGTERM: somebody else ended the rank, which says nothing of what it had loaded."""
OVERRULED = frozenset({"plan.no_retry", "policy.confirmed"})
"""Ends that mean `a retry cannot help`, which does not hold for a retry from another checkpoint. A policy that says
never, and a budget that is used up, are not overruled."""


def exit_fingerprint(report: WorkerExited) -> str:
    """What a death has in common with the same death of another generation."""
    if report.restart_asked is not None:
        return ""
    if report.error is not None:
        return report.error.fingerprint
    if report.exit.oom_kill is OomKill.YES:
        return "oom_kill"
    if report.exit.signal:
        return "" if report.exit.signal in SENT_FROM_OUTSIDE else f"signal {report.exit.signal}"
    return "" if report.exit.exit_code is None else f"exit code {report.exit.exit_code}"


def ranks_fingerprint(report: RanksFaulted) -> str:
    """As much for ranks that live. A rank that hangs or is slow says nothing of what it had loaded."""
    return f"log rule {report.rule_id}" if report.check == RankCheck.LOG_RULE else ""


def note_sign(draft: Draft, *, rank: int | None, fingerprint: str, observed_at: datetime) -> None:
    """Remember what broke the generation."""
    sign = FaultSign(rank=rank, fingerprint=fingerprint, observed_at=observed_at)
    trial = with_sign(draft.gang.trial, sign)
    if trial is not draft.gang.trial:
        draft.change(trial=trial)


def next_trial(gang: Gang, now: datetime) -> LoadTrial:
    """At a start: what the former generation broke of is what this one may not break of at once."""
    incident, trial = gang.incident, gang.trial
    before = trial.before
    if incident is not None and not incident.by_notice:
        verdict = incident.verdict
        before = PastFault(
            fingerprint=fingerprint_of(trial, None if verdict is None else verdict.culprit_rank),
            cause="" if verdict is None else verdict.cause,
        )
    return replace(trial, loaded_at=now, signs=(), before=before)


def reconsider(draft: Draft, verdict: Verdict | None, decided: Answer) -> Answer:
    """The answer, unless another checkpoint is to be tried before the job is given up."""
    if decided.outcome is None:
        if suspicion(draft, verdict):
            return replace(decided, level=higher(decided.level, RecoveryLevel.PROCESS))
        return decided
    if decided.rule_id not in OVERRULED or _limits(draft.gang).step_back_max == 0:
        return decided
    if suspicion(draft, verdict):
        return Answer(level=RecoveryLevel.PROCESS)
    draft.explain("checkpoint.no_step_back", _why_not(draft))
    return decided


def checkpoint_for(draft: Draft, verdict: Verdict | None) -> ChosenCheckpoint:
    """What the next generation starts from: the newest whole checkpoint, or the one before the one under suspicion."""
    gang = draft.gang
    doubt = suspicion(draft, verdict)
    if not doubt:
        chosen = choose(draft.history, gang.starts, found=gang.checkpoint_found)
        draft.explain("plan.checkpoint", chosen.sentence)
        return chosen
    loaded = _loaded(gang)
    chosen = _older(draft)
    over = (*gang.trial.stepped_over, loaded)
    draft.change(trial=replace(gang.trial, stepped_over=over))
    limit = _limits(gang).step_back_max
    sentence = f"step {loaded} is stepped over, {len(over)} of {limit}: {doubt}; {chosen.sentence}"
    draft.explain("checkpoint.step_back", sentence, *([verdict.fault_id] if verdict else []))
    return replace(chosen, sentence=sentence, stepped_over=loaded)


def may_step_back(draft: Draft) -> bool:
    """Whether the generation that starts now has an older checkpoint behind it, should this one be to blame."""
    return not _exhausted(draft.gang) and _older(draft).ref is not None


def suspicion(draft: Draft, verdict: Verdict | None) -> str:
    """Why the loaded checkpoint is to be stepped over; empty: it is not."""
    gang, trial = draft.gang, draft.gang.trial
    if draft.incident.by_notice or observes(gang) or _exhausted(gang) or not _is_right_after(gang):
        return ""
    if verdict is not None and verdict.attribution in (Attribution.HARDWARE, Attribution.DRIVER):
        return ""
    if _older(draft).ref is None:
        return ""
    fingerprint = fingerprint_of(trial, None if verdict is None else verdict.culprit_rank)
    cause = "" if verdict is None else verdict.cause
    after = _how_soon(gang)
    if fingerprint:
        is_same = fingerprint == trial.before.fingerprint
    else:
        # Nobody died of it by itself: a fault that only its verdict tells.
        by_user = verdict is not None and verdict.attribution is Attribution.USER
        is_same = by_user and not trial.signs and cause == trial.before.cause
    if is_same:
        return f"{cause or 'the same fault'} ({fingerprint or 'by its verdict'}) came again {after}"
    if verdict is not None and verdict.action is Action.DONT_RETRY_NOTIFY_USER:
        return f"{cause} came {after}, and from there a retry cannot help"
    return ""


def _why_not(draft: Draft) -> str:
    gang = draft.gang
    loaded, used, limit = _loaded(gang), gang.trial.stepped_over, _limits(gang).step_back_max
    if loaded < 0:
        return "no checkpoint was loaded, so none can be to blame"
    if len(used) >= limit:
        return f"no further checkpoint is stepped over: {len(used)} of {limit} were (steps {list(used)})"
    if _older(draft).ref is None:
        return f"no checkpoint before step {loaded} is whole, so there is none to step back to"
    return f"the fault came {_how_soon(gang)}: too late to speak against it"


def _limits(gang: Gang) -> CheckpointPolicy:
    return CheckpointPolicy() if gang.spec.policy is None else gang.spec.policy.checkpoint


def _loaded(gang: Gang) -> int:
    """Step of the checkpoint that the present generation was started from; -1: none."""
    return gang.starts[-1].step if gang.starts else -1


def _exhausted(gang: Gang) -> bool:
    return _loaded(gang) < 0 or len(gang.trial.stepped_over) >= _limits(gang).step_back_max


def _older(draft: Draft) -> ChosenCheckpoint:
    gang = draft.gang
    return choose(draft.history, gang.starts, found=gang.checkpoint_found, below=_loaded(gang))


def _is_right_after(gang: Gang) -> bool:
    limits = _limits(gang)
    if gang.step_now is not None:
        return gang.step_now - _loaded(gang) <= limits.same_fault_within_steps
    # Ranks that tell their steps and told none broke before the first; of others only the time is known.
    return bool(gang.stepping) or _lived_s(gang) <= limits.same_fault_within_s


def _lived_s(gang: Gang) -> float:
    trial, incident = gang.trial, gang.incident
    assert incident is not None, "a plan belongs to an incident"
    ended_at = min((sign.observed_at for sign in trial.signs), default=incident.mark_at)
    return 0.0 if trial.loaded_at is None else max(0.0, (ended_at - trial.loaded_at).total_seconds())


def _how_soon(gang: Gang) -> str:
    loaded = _loaded(gang)
    if gang.step_now is not None:
        return f"{max(0, gang.step_now - loaded)} steps after step {loaded} was loaded"
    if gang.stepping:
        return f"before the first step after step {loaded} was loaded"
    return f"{_lived_s(gang):.0f} s after step {loaded} was loaded"
