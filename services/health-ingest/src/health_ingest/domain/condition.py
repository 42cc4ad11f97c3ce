"""The condition machine: signals of one (entity, check) → problem → failure → cleared.

Everything that changes the phase of a condition is in TRANSITIONS. Three ideas:

- Two tiers. A problem is tolerated for a window, a failure is acted on. Some checks have no window.
- Hysteresis. One good sample does not clear anything; several fresh ones in a row do.
- Silence is unknown. An unknown sample clears nothing and breaks a row of good ones; it never raises anything either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from fault_contracts.health import ConditionCleared, ConditionRaised, Tier
from fault_contracts.ids import derived_id
from fault_contracts.payload import Health, Reason
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.signal import RANK_CHECKS, Entity, Signal

SIGNAL_IDS_MAX = 64
"""As many as ConditionRaised carries; an older copy than these is past the bus's redelivery limit."""


class Phase(StrEnum):
    """Of one condition."""

    CLEAR = "clear"
    PROBLEM = "problem"
    FAILURE = "failure"


class Trigger(StrEnum):
    """What can move a condition."""

    BAD = "bad"
    BAD_AT_ONCE = "bad_at_once"
    GOOD_ENOUGH = "good_enough"
    WINDOW_PASSED = "window_passed"
    PROCESS_FORGOTTEN = "process_forgotten"


TRANSITIONS: dict[tuple[Phase, Trigger], Phase] = {
    (Phase.CLEAR, Trigger.BAD): Phase.PROBLEM,
    (Phase.CLEAR, Trigger.BAD_AT_ONCE): Phase.FAILURE,
    (Phase.PROBLEM, Trigger.BAD): Phase.PROBLEM,
    (Phase.PROBLEM, Trigger.BAD_AT_ONCE): Phase.FAILURE,
    (Phase.PROBLEM, Trigger.GOOD_ENOUGH): Phase.CLEAR,
    (Phase.PROBLEM, Trigger.WINDOW_PASSED): Phase.FAILURE,
    (Phase.FAILURE, Trigger.BAD): Phase.FAILURE,
    (Phase.FAILURE, Trigger.BAD_AT_ONCE): Phase.FAILURE,
    (Phase.FAILURE, Trigger.GOOD_ENOUGH): Phase.CLEAR,
    (Phase.FAILURE, Trigger.PROCESS_FORGOTTEN): Phase.CLEAR,
}
"""A pair that is not here changes nothing: a clear condition cannot be cleared, a failure has no window."""

Effect = ConditionRaised | ConditionCleared


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What is remembered about one (entity, check).

    Attributes:
        entity: what it is about.
        phase: where it stands.
        condition_id: of the current or last time it was raised; empty before the first.
        count: bad signals since it was raised.
        good_samples: fresh good samples in a row.
        signal_ids: the newest ones, to know a copy.
        bad_observed_at: the node's time of the newest bad signal; a good sample older than it proves nothing.
        raised_at: this service's time.
        changed_at: this service's time of the last change of phase.
        deadline_at: when time alone changes this condition: the window's end, or when it is forgotten; None: never.
        cause: the signal that raised it: what a later effect still has to say.
    """

    entity: Entity
    phase: Phase = Phase.CLEAR
    condition_id: str = ""
    count: int = 0
    good_samples: int = 0
    signal_ids: tuple[str, ...] = ()
    bad_observed_at: datetime | None = None
    raised_at: datetime | None = None
    changed_at: datetime | None = None
    deadline_at: datetime | None = None
    cause: Signal | None = None

    def __post_init__(self) -> None:
        assert (self.phase is Phase.CLEAR) or (self.condition_id and self.raised_at and self.cause), "raised by nothing"
        assert len(self.signal_ids) <= SIGNAL_IDS_MAX, "too many signal ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Result of one event. `condition` is None when the record can be dropped; then there is no effect."""

    condition: Condition | None
    effects: tuple[Effect, ...]
    reason: Reason


def observe(condition: Condition, signal: Signal, *, now: datetime, policy: ConditionPolicy) -> Step:
    """Take one signal in. A signal that was seen before changes nothing."""
    assert signal.entity == condition.entity, "a signal of another entity"
    if signal.signal_id in condition.signal_ids:
        return _same(condition, "seen", f"signal {signal.signal_id} was counted before")
    if signal.health is Health.BAD:
        return _bad(condition, signal, now=now, policy=policy)
    if signal.health is Health.OK:
        return _good(condition, signal, now=now, policy=policy)
    if condition.good_samples == 0:
        return _same(condition, "unknown", f"{signal.entity.check} is unknown; that clears and raises nothing")
    changed = replace(condition, good_samples=0, signal_ids=_remember(condition, signal))
    return _same(changed, "unknown", f"{signal.entity.check} is unknown; good samples are counted anew")


def pass_time(condition: Condition, *, now: datetime, policy: ConditionPolicy) -> Step:
    """Let time act: a tolerance window that is over, or a record that is old enough to go."""
    if condition.deadline_at is None or now < condition.deadline_at:
        return _same(condition, "early", "no deadline has passed")
    if condition.phase is Phase.CLEAR:
        reason = Reason(
            rule_id="condition.forgotten", sentence="cleared long enough ago that no copy can come any more"
        )
        return Step(condition=None, effects=(), reason=reason)
    cause = condition.cause
    assert cause is not None, "raised by nothing"
    if condition.phase is Phase.FAILURE:
        sentence = f"the process ended over {policy.forget_after_s:.0f} s ago; its record is closed"
        reason = Reason(rule_id="condition.process_forgotten", sentence=sentence)
        closed = replace(
            condition,
            phase=TRANSITIONS[condition.phase, Trigger.PROCESS_FORGOTTEN],
            changed_at=now,
            # Due at once: the next look drops the record, after the effect below is out.
            deadline_at=now,
        )
        return Step(condition=closed, effects=(_cleared(condition, reason, now),), reason=reason)
    window_s = policy.window_s(condition.entity.check)
    sentence = (
        f"{condition.entity.check} of {_named(condition.entity)} was bad {condition.count} times and did not clear "
        f"within its tolerance of {window_s:g} s: {cause.detail}"
    )
    reason = Reason(rule_id="condition.outlasted", sentence=sentence[:2_048], evidence_ids=condition.signal_ids)
    failed = replace(
        condition,
        phase=TRANSITIONS[condition.phase, Trigger.WINDOW_PASSED],
        changed_at=now,
        deadline_at=_failure_deadline(condition.entity, now, policy),
    )
    return Step(condition=failed, effects=(_raised(failed, Tier.FAILURE, reason, now),), reason=reason)


def _bad(condition: Condition, signal: Signal, *, now: datetime, policy: ConditionPolicy) -> Step:
    if condition.phase is Phase.CLEAR:
        return _open(condition, signal, now=now, policy=policy)
    check = condition.entity.check
    newest = max(condition.bad_observed_at or signal.observed_at, signal.observed_at)
    phase = TRANSITIONS[condition.phase, Trigger.BAD_AT_ONCE if check in policy.at_once else Trigger.BAD]
    counted = replace(
        condition,
        phase=phase,
        count=condition.count + 1,
        good_samples=0,
        signal_ids=_remember(condition, signal),
        bad_observed_at=newest,
    )
    sentence = f"{check} was raised before; bad signal {counted.count} of this condition"
    if phase is condition.phase:
        return _same(counted, "repeat", sentence)
    # Only a changed policy brings us here: the check got no window while it was a tolerated problem.
    reason = Reason(rule_id="condition.at_once", sentence=f"{check} has no tolerance any more; {sentence}")
    failed = replace(counted, changed_at=now, deadline_at=_failure_deadline(condition.entity, now, policy))
    return Step(condition=failed, effects=(_raised(failed, Tier.FAILURE, reason, now),), reason=reason)


def _open(condition: Condition, signal: Signal, *, now: datetime, policy: ConditionPolicy) -> Step:
    check = condition.entity.check
    if condition.bad_observed_at is not None and signal.observed_at <= condition.bad_observed_at:
        return _same(condition, "overtaken", f"{check} was cleared after this bad signal was observed")
    at_once = check in policy.at_once
    deadline = _failure_deadline(condition.entity, now, policy) if at_once else _window_end(check, now, policy)
    opened = Condition(
        entity=condition.entity,
        phase=TRANSITIONS[condition.phase, Trigger.BAD_AT_ONCE if at_once else Trigger.BAD],
        condition_id=_condition_id(condition.entity, signal),
        count=1,
        signal_ids=(signal.signal_id,),
        bad_observed_at=signal.observed_at,
        raised_at=now,
        changed_at=now,
        deadline_at=deadline,
        cause=signal,
    )
    reason = Reason(
        rule_id="condition.at_once" if at_once else "condition.first_bad",
        sentence=(signal.detail or f"{check} of {_named(condition.entity)} is bad")[:2_048],
        evidence_ids=(signal.signal_id,),
    )
    tier = Tier.FAILURE if at_once else Tier.PROBLEM
    return Step(condition=opened, effects=(_raised(opened, tier, reason, now),), reason=reason)


def _good(condition: Condition, signal: Signal, *, now: datetime, policy: ConditionPolicy) -> Step:
    check = condition.entity.check
    if condition.phase is Phase.CLEAR:
        return _same(condition, "good", f"{check} is good and was not raised")
    if now - signal.observed_at > timedelta(seconds=policy.sample_age_s_max):
        return _same(condition, "old_sample", f"{check}: the good sample is too old to say anything about now")
    if condition.bad_observed_at is not None and signal.observed_at <= condition.bad_observed_at:
        return _same(condition, "overtaken", f"{check}: the good sample is older than the newest bad one")
    good = condition.good_samples + 1
    needed = policy.good_samples_needed(check)
    if good < needed:
        counted = replace(condition, good_samples=good, signal_ids=_remember(condition, signal))
        return _same(counted, "clearing", f"{check}: good sample {good} of {needed}")
    row = f"{check} of {_named(condition.entity)} was good {good} times in a row after {condition.count} bad signals"
    # Whoever judged the check elsewhere says why it is over.
    sentence = (signal.detail if check in policy.judged else "") or row
    reason = Reason(rule_id="condition.cleared", sentence=sentence[:2_048], evidence_ids=(signal.signal_id,))
    cleared = replace(
        condition,
        phase=TRANSITIONS[condition.phase, Trigger.GOOD_ENOUGH],
        good_samples=good,
        signal_ids=_remember(condition, signal),
        changed_at=now,
        deadline_at=now + timedelta(seconds=policy.forget_after_s),
    )
    return Step(condition=cleared, effects=(_cleared(condition, reason, now),), reason=reason)


def _condition_id(entity: Entity, signal: Signal) -> str:
    """The same whenever the same cause raises it.

    A process ends once, and hangs once before it is ended, so its entity is the cause. Anything else can be raised
    again later, so there the first signal is.
    """
    if entity.check in RANK_CHECKS:
        return derived_id(entity.key, "condition")
    return derived_id(entity.key, "condition", signal.signal_id)


def _window_end(check: str, now: datetime, policy: ConditionPolicy) -> datetime | None:
    window_s = policy.window_s(check)
    return now + timedelta(seconds=window_s) if math.isfinite(window_s) else None


def _failure_deadline(entity: Entity, now: datetime, policy: ConditionPolicy) -> datetime | None:
    """A process never becomes well again: its record is dropped by time. Everything else waits for good samples."""
    return now + timedelta(seconds=policy.forget_after_s) if entity.check in RANK_CHECKS else None


def _raised(condition: Condition, tier: Tier, reason: Reason, now: datetime) -> ConditionRaised:
    cause = condition.cause
    assert cause is not None, "raised by nothing"
    return ConditionRaised(
        condition_id=condition.condition_id,
        node_id=condition.entity.node_id,
        component=condition.entity.component,
        component_id=condition.entity.component_id,
        check=condition.entity.check,
        tier=tier,
        reason=reason.sentence,
        job_id=cause.job_id,
        topology_version=cause.topology_version,
        rank=cause.rank,
        worker=cause.worker,
        faulted=cause.faulted,
        signal_ids=condition.signal_ids,
        count=condition.count,
        raised_at=now,
    )


def _cleared(condition: Condition, reason: Reason, now: datetime) -> ConditionCleared:
    return ConditionCleared(
        condition_id=condition.condition_id,
        node_id=condition.entity.node_id,
        check=condition.entity.check,
        reason=reason.sentence,
        cleared_at=now,
    )


def _same(condition: Condition, rule: str, sentence: str) -> Step:
    return Step(condition=condition, effects=(), reason=Reason(rule_id=f"condition.{rule}", sentence=sentence[:2_048]))


def _remember(condition: Condition, signal: Signal) -> tuple[str, ...]:
    return (*condition.signal_ids, signal.signal_id)[-SIGNAL_IDS_MAX:]


def _named(entity: Entity) -> str:
    return f"{entity.component} {entity.component_id} on {entity.node_id}" if entity.component_id else entity.node_id
