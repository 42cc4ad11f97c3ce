"""Signals of one (device, fault class) → problem → failure → cleared."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from fault_contracts.health import Tier
from fault_contracts.ids import derived_id
from fault_contracts.payload import Health, Reason
from health_ingest.domain.condition import (
    CODES_MAX,
    OTHER_CODES,
    SIGNAL_IDS_MAX,
    TRANSITIONS,
    Condition,
    Phase,
    Step,
    Trigger,
    named,
    unchanged,
)
from health_ingest.domain.condition_events import cleared, raised
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.ruling import Clears, Ruling, Weight
from health_ingest.domain.seen import Seen
from health_ingest.domain.signal import RANK_CHECKS, Entity, Signal
from health_ingest.domain.times import alarm_at, forget_at

PLACED_IDS_MAX = 8
"""Signal ids that are kept of signals which are known by their place: evidence for people, and every write carries
them."""
SEQUENCE = "seq"
"""Attribute of a signal from the kernel's log: the sequence of its (last) line within the boot."""


def observe(
    condition: Condition,
    signal: Signal,
    *,
    now: datetime,
    policy: ConditionPolicy,
    ruling: Ruling | None = None,
    history: tuple[Seen, ...] = (),
) -> Step:
    """Take one signal in. One that was seen before changes nothing.

    `ruling`: what the policy says of it; None: what the limits alone say. `history`: with this signal in it. A signal
    with a place is known by it, and whoever folds a batch has looked (fold.py); all others are known by their id.
    """
    assert _is_about(signal, condition.entity), "a signal of another entity"
    if signal.place is None and signal.signal_id in condition.signal_ids:
        return unchanged(condition, "seen", f"signal {signal.signal_id} was counted before")
    if signal.health is Health.BAD:
        return _bad(condition, signal, ruling, history, now=now, policy=policy)
    if signal.health is Health.OK:
        return _good(condition, signal, now=now, policy=policy)
    if condition.good_samples == 0:
        return unchanged(condition, "unknown", f"{signal.entity.check} is unknown; that clears and raises nothing")
    changed = replace(condition, good_samples=0, signal_ids=_remembered(condition, signal))
    return unchanged(changed, "unknown", f"{signal.entity.check} is unknown; good samples are counted anew")


def _bad(
    condition: Condition,
    signal: Signal,
    given: Ruling | None,
    history: tuple[Seen, ...],
    *,
    now: datetime,
    policy: ConditionPolicy,
) -> Step:
    ruling = given or policy.ruling(condition.entity.check)
    line = _line(signal)
    same_boot = line is not None and line[0] == condition.backlog[0]
    if line is not None and signal.old and same_boot and line[1] <= condition.backlog[1]:
        return unchanged(condition, "read_again", "this line of the kernel's log was counted when it was first read")
    counted = replace(
        condition,
        total=condition.total + signal.count,
        history=history,
        backlog=condition.backlog if line is None else max(line, condition.backlog) if same_boot else line,
        bad_at=now,
    )
    weight = _weight(ruling)
    if weight is Weight.RECORD:
        return _recorded(counted, signal, "recorded", f"{signal.code}: {ruling.sentence}", policy)
    if signal.old and (ruling.clears is not Clears.RESET or line is None):
        # Nobody knows whether it still holds: what is measured is measured again, and quiet may be long over. A line of
        # this boot's log holds until a reset; a counter that was found at the first look may be of any time.
        return _recorded(counted, signal, "old", f"{signal.code} happened before anybody watched", policy)
    if condition.phase is Phase.CLEAR:
        return _open(counted, signal, ruling, given is not None, now=now, policy=policy)
    return _again(counted, signal, ruling, given is not None, now=now, policy=policy)


def _recorded(condition: Condition, signal: Signal, rule: str, sentence: str, policy: ConditionPolicy) -> Step:
    """Counted and shown; raises nothing."""
    codes, ids = _codes(condition.codes, signal), _remembered(condition, signal)
    if condition.phase is not Phase.CLEAR:
        changed = replace(condition, count=condition.count + signal.count, codes=codes, signal_ids=ids)
        return unchanged(changed, rule, sentence)
    recorded = replace(condition, codes=codes, signal_ids=ids)
    return unchanged(replace(recorded, deadline_at=recorded.deadline_at or forget_at(recorded, policy)), rule, sentence)


def _open(
    condition: Condition, signal: Signal, ruling: Ruling, by_policy: bool, *, now: datetime, policy: ConditionPolicy
) -> Step:
    check = condition.entity.check
    if condition.bad_observed_at is not None and signal.observed_at <= condition.bad_observed_at:
        sentence = f"{check} was cleared after this bad signal was observed"
        return unchanged(replace(condition, signal_ids=_remembered(condition, signal)), "overtaken", sentence)
    at_once = _weight(ruling) is Weight.FAILURE
    opened = replace(
        condition,
        phase=TRANSITIONS[condition.phase, Trigger.BAD_AT_ONCE if at_once else Trigger.BAD],
        condition_id=_condition_id(condition.entity, signal),
        count=signal.count,
        codes=_codes((), signal),
        good_samples=0,
        signal_ids=(signal.signal_id,),
        bad_observed_at=signal.observed_at,
        raised_at=now,
        changed_at=now,
        cause=signal,
        ruling=ruling if by_policy else None,
        boot_id=signal.boot_id,
    )
    opened = replace(opened, deadline_at=alarm_at(opened, policy))
    reason = Reason(
        rule_id=ruling.rule_id,
        sentence=_sentence(signal, ruling, f"{check} of {named(condition.entity)} is bad"),
        evidence_ids=(signal.signal_id,),
    )
    tier = Tier.FAILURE if at_once else Tier.PROBLEM
    return Step(condition=opened, effects=(raised(opened, tier, reason, now),), reason=reason)


def _again(
    condition: Condition, signal: Signal, ruling: Ruling, by_policy: bool, *, now: datetime, policy: ConditionPolicy
) -> Step:
    at_once = _weight(ruling) is Weight.FAILURE
    phase = TRANSITIONS[condition.phase, Trigger.BAD_AT_ONCE if at_once else Trigger.BAD]
    graver = phase is not condition.phase or (by_policy and ruling.outweighs(condition.ruling))
    counted = replace(
        condition,
        phase=phase,
        count=condition.count + signal.count,
        codes=_codes(condition.codes, signal),
        good_samples=0,
        signal_ids=_remembered(condition, signal),
        bad_observed_at=max(condition.bad_observed_at or signal.observed_at, signal.observed_at),
        boot_id=signal.boot_id or condition.boot_id,
        cause=signal if graver else condition.cause,
        ruling=(ruling if by_policy else None) if graver else condition.ruling,
    )
    sentence = f"{condition.entity.check} was raised before; bad signal {counted.count} of this condition"
    if phase is condition.phase:
        return unchanged(counted, "repeat", sentence)
    failed = replace(counted, changed_at=now)
    failed = replace(failed, deadline_at=alarm_at(failed, policy))
    reason = Reason(
        rule_id=ruling.rule_id,
        sentence=_sentence(signal, ruling, f"{condition.entity.check} has no tolerance any more; {sentence}"),
        evidence_ids=failed.signal_ids,
    )
    return Step(condition=failed, effects=(raised(failed, Tier.FAILURE, reason, now),), reason=reason)


def _good(condition: Condition, signal: Signal, *, now: datetime, policy: ConditionPolicy) -> Step:
    check = condition.entity.check
    if condition.phase is Phase.CLEAR:
        return unchanged(condition, "good", f"{check} is good and was not raised")
    ruling = condition.ruled(policy)
    if ruling.clears is Clears.RESET:
        return unchanged(condition, "waits_for_reset", f"{check} is ended by a reset, not by good samples")
    codes = dict(condition.codes)
    if signal.code and codes and signal.code not in codes and OTHER_CODES not in codes:
        return unchanged(condition, "other_code", f"{signal.code} is good; what is bad of {check} is another code")
    if now - signal.observed_at > timedelta(seconds=policy.sample_age_s_max):
        return unchanged(condition, "old_sample", f"{check}: the good sample is too old to say anything about now")
    if condition.bad_observed_at is not None and signal.observed_at <= condition.bad_observed_at:
        return unchanged(condition, "overtaken", f"{check}: the good sample is older than the newest bad one")
    good = condition.good_samples + 1
    needed = ruling.good_samples_min or policy.good_samples_min
    if good < needed:
        counted = replace(condition, good_samples=good, signal_ids=_remembered(condition, signal))
        return unchanged(counted, "clearing", f"{check}: good sample {good} of {needed}")
    row = f"{check} of {named(condition.entity)} was good {good} times in a row after {condition.count} bad signals"
    # Whoever judged the check elsewhere says why it is over.
    sentence = (signal.detail if needed == 1 else "") or row
    reason = Reason(rule_id="condition.cleared", sentence=sentence[:2_048], evidence_ids=(signal.signal_id,))
    ended = replace(
        condition,
        phase=TRANSITIONS[condition.phase, Trigger.GOOD_ENOUGH],
        good_samples=good,
        signal_ids=_remembered(condition, signal),
        changed_at=now,
    )
    ended = replace(ended, deadline_at=forget_at(ended, policy))
    return Step(condition=ended, effects=(cleared(ended, reason, now),), reason=reason)


def _weight(ruling: Ruling) -> Weight:
    """A consequence of something else is never a failure by itself."""
    return Weight.PROBLEM if ruling.sympathetic and ruling.weight is Weight.FAILURE else ruling.weight


def _is_about(signal: Signal, entity: Entity) -> bool:
    return replace(signal.entity, check=entity.check) == entity


def _sentence(signal: Signal, ruling: Ruling, otherwise: str) -> str:
    said = ": ".join(part for part in (ruling.sentence, signal.detail) if part)
    return (said or otherwise)[:2_048]


def _line(signal: Signal) -> tuple[str, int] | None:
    """Boot id and place of a line of the kernel's log; None: it did not come from there."""
    number = signal.attributes.get(SEQUENCE, "")
    return (signal.boot_id, int(number)) if number.isdecimal() and signal.boot_id else None


def _codes(codes: tuple[tuple[str, int], ...], signal: Signal) -> tuple[tuple[str, int], ...]:
    code = signal.code or signal.entity.check
    known = dict(codes)
    if code not in known and len(known) >= CODES_MAX - 1:
        code = OTHER_CODES
    known[code] = known.get(code, 0) + signal.count
    return tuple(known.items())


def _condition_id(entity: Entity, signal: Signal) -> str:
    """The same whenever the same cause raises it.

    A process ends once, and hangs once before it is ended, so its entity is the cause. Anything else can be raised
    again later, so there the first signal is.
    """
    if entity.check in RANK_CHECKS:
        return derived_id(entity.key, "condition")
    return derived_id(entity.key, "condition", signal.signal_id)


def _remembered(condition: Condition, signal: Signal) -> tuple[str, ...]:
    return (*condition.signal_ids, signal.signal_id)[-(SIGNAL_IDS_MAX if signal.place is None else PLACED_IDS_MAX) :]
