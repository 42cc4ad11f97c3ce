"""What a policy makes of one fault with the job's past: how heavy the restart, after what wait, or that none follows.

Levels are a ladder: in_process < process < job < failed. A fault is answered as low as verdict and policy allow; the
same job failing again and again is answered higher, and after `quiet_s` without a fault from the bottom again.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from fault_contracts.agent import JobSpec
from fault_contracts.faults import Action, Attribution
from fault_contracts.policy import Backoff, CausePolicy, RecoveryPolicy, Retry
from fault_contracts.recovery import JobOutcome
from fault_contracts.recovery_level import RecoveryLevel
from recovery_planner.domain.past_restarts import PastRestart, streak, within

_ORDER = {level: place for place, level in enumerate(RecoveryLevel)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is to be answered.

    Attributes:
        action: what the judge recommends.
        level: the least that verdict and script ask for.
    """

    attribution: Attribution
    cause: str
    action: Action
    level: RecoveryLevel


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The decision.

    Attributes:
        level: the least level of the restart; in_process means: as small as the gang allows.
        outcome: how the job ends instead; None: it goes on.
        wait_s: from the stop to the restart.
        rule_id, sentence: of what decided most.
        notes: what else played a part, as (rule_id, sentence).
    """

    level: RecoveryLevel
    outcome: JobOutcome | None = None
    wait_s: float = 0.0
    rule_id: str = ""
    sentence: str = ""
    notes: tuple[tuple[str, str], ...] = ()


def higher(one: RecoveryLevel, other: RecoveryLevel) -> RecoveryLevel:
    """The heavier of two levels."""
    return max(one, other, key=_ORDER.__getitem__)


def rule_for(policy: RecoveryPolicy, fault: Fault) -> CausePolicy | None:
    """The first rule of the policy that speaks of this fault."""
    return next((rule for rule in policy.causes if matches(rule, fault.attribution, fault.cause)), None)


def matches(rule: CausePolicy, attribution: Attribution, cause: str) -> bool:
    """Whether a rule speaks of faults of this kind."""
    if rule.attribution is not None and rule.attribution is not attribution:
        return False
    return rule.cause is None or fnmatchcase(cause, rule.cause)


def answer(fault: Fault, spec: JobSpec, past: tuple[PastRestart, ...], *, now: datetime) -> Answer:
    """Decide by the job's policy. Without one the verdict's own level stands, and a user's fault ends the job."""
    policy = spec.policy or RecoveryPolicy()
    rule = rule_for(policy, fault)
    recent = streak(past, now, policy.quiet_s)
    window_s = policy.window_s or spec.window_s
    refused = _refused(fault, policy, rule, recent) or _over_budget(fault, rule, past, now, window_s)
    if refused is not None:
        return refused
    level, notes = _level(fault, policy, rule, within(recent, now, window_s))
    if level is RecoveryLevel.FAILED:
        rule_id, sentence = notes[-1]
        return Answer(level=level, outcome=JobOutcome.FAILED_BUDGET, rule_id=rule_id, sentence=sentence, notes=notes)
    alike = tuple(each for each in recent if rule is None or matches(rule, each.attribution, each.cause))
    backoff = (rule.backoff if rule is not None else None) or policy.backoff
    wait_s = backoff_s(backoff, len(alike))
    if wait_s > 0:
        notes = (*notes, ("policy.backoff", f"restart {len(alike) + 1} of its kind waits {wait_s:g} s"))
    rule_id, sentence = notes[-1] if notes else ("policy.level", f"{fault.cause or 'the fault'} is answered at {level}")
    return Answer(level=level, wait_s=wait_s, rule_id=rule_id, sentence=sentence, notes=notes)


def backoff_s(backoff: Backoff | None, before: int) -> float:
    """The wait before a restart that has so many of its kind before it."""
    if backoff is None or backoff.first_s <= 0:
        return 0.0
    # Grown step by step, so that a long past does not overflow.
    wait_s = backoff.first_s
    for _ in range(before):
        wait_s *= backoff.factor
        if wait_s >= backoff.max_s:
            break
    return min(wait_s, backoff.max_s)


def _refused(
    fault: Fault, policy: RecoveryPolicy, rule: CausePolicy | None, recent: tuple[PastRestart, ...]
) -> Answer | None:
    """Whether it may be tried again at all."""
    before = [each for each in recent if (each.attribution, each.cause) == (fault.attribution, fault.cause)]
    retry = rule.retry if rule is not None else Retry.ALWAYS
    named = fault.cause or "this fault"
    if fault.action is Action.DONT_RETRY_NOTIFY_USER and retry is not Retry.NEVER:
        # The judge says that a retry cannot help: a rule that merely sets a budget does not overrule it.
        retry = Retry.CONFIRM if retry is Retry.CONFIRM or policy.confirming_retries > 0 else Retry.NEVER
        if retry is Retry.NEVER:
            return _end(fault, "plan.no_retry", f"{named}: the verdict says that a retry cannot help")
    if retry is Retry.NEVER:
        return _end(fault, "policy.never", f"{named} is not tried again: the policy says never")
    if retry is Retry.CONFIRM and before:
        return _end(fault, "policy.confirmed", f"{named} came again after a restart that was to confirm it")
    return None


def _over_budget(
    fault: Fault, rule: CausePolicy | None, past: tuple[PastRestart, ...], now: datetime, window_s: float
) -> Answer | None:
    if rule is None or rule.restarts_max is None:
        return None
    span_s = rule.window_s or window_s
    used = sum(matches(rule, each.attribution, each.cause) for each in within(past, now, span_s))
    if used < rule.restarts_max:
        return None
    what = rule.cause or str(rule.attribution)
    sentence = f"{used} of {rule.restarts_max} restarts for {what} in the last {span_s:g} s are used"
    return _end(fault, "policy.cause_budget", sentence)


def _end(fault: Fault, rule_id: str, sentence: str) -> Answer:
    user = fault.attribution is Attribution.USER or fault.action is Action.DONT_RETRY_NOTIFY_USER
    outcome = JobOutcome.FAILED_USER if user else JobOutcome.FAILED_BUDGET
    return Answer(level=RecoveryLevel.FAILED, outcome=outcome, rule_id=rule_id, sentence=sentence)


def _level(
    fault: Fault, policy: RecoveryPolicy, rule: CausePolicy | None, recent: tuple[PastRestart, ...]
) -> tuple[RecoveryLevel, tuple[tuple[str, str], ...]]:
    notes: list[tuple[str, str]] = []
    level = fault.level
    if rule is not None and rule.level is not None and higher(level, rule.level) is not level:
        level = rule.level
        notes.append(("policy.level", f"the policy wants level {level} for {rule.cause or rule.attribution}"))
    limit = policy.process_restarts_before_job
    below = _below_job(recent)
    if limit is not None and level is not RecoveryLevel.JOB and below >= limit:
        level = higher(level, RecoveryLevel.JOB)
        notes.append(("policy.escalated", f"{below} restarts below level job did not help: the next is of level job"))
    jobs = sum(each.level is RecoveryLevel.JOB for each in recent)
    if level is RecoveryLevel.JOB and policy.job_restarts_max is not None and jobs >= policy.job_restarts_max:
        level = RecoveryLevel.FAILED
        notes.append(("policy.job_budget", f"{jobs} of {policy.job_restarts_max} restarts of level job are used"))
    ceiling = rule.level_max if rule is not None else None
    if ceiling is not None and level is not RecoveryLevel.FAILED and higher(level, ceiling) is not ceiling:
        notes.append(("policy.level_max", f"it takes level {level}, and the policy goes to {ceiling} at most"))
        level = RecoveryLevel.FAILED
    return level, tuple(notes)


def _below_job(recent: tuple[PastRestart, ...]) -> int:
    """Restarts below level job since the last one of level job."""
    count = 0
    for each in reversed(recent):
        if each.level is RecoveryLevel.JOB:
            break
        count += 1
    return count
