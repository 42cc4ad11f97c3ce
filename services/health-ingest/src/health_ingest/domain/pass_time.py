"""What time does to a condition: a window that is over, quiet that lasted, a record that can go."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from fault_contracts.health import Tier
from fault_contracts.payload import Reason
from health_ingest.domain.condition import TRANSITIONS, Condition, Phase, Step, Trigger, named, unchanged
from health_ingest.domain.condition_events import cleared, raised
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.signal import RANK_CHECKS
from health_ingest.domain.times import forget_at, quiet_end, window_end

LOOK_AGAIN_S = 60.0
"""After quiet on a node that is not heard: as often as twice a sweep, so that its return is seen soon."""


def pass_time(
    condition: Condition, *, now: datetime, policy: ConditionPolicy, heard_at: datetime | None = None
) -> Step:
    """Let time act. `heard_at`: this service's time of the node's last message; None: it is not known to live."""
    if condition.deadline_at is None or now < condition.deadline_at:
        return unchanged(condition, "early", "no deadline has passed")
    if condition.phase is Phase.CLEAR:
        return _forget(condition, now=now, policy=policy)
    if condition.entity.check in RANK_CHECKS:
        return _close(condition, now=now, policy=policy)
    window, quiet = window_end(condition, policy), quiet_end(condition, policy)
    quiet_first = quiet is not None and quiet <= now and (window is None or quiet < window)
    if quiet_first and _is_heard(condition, heard_at, now, policy):
        return _quiet(condition, now=now, policy=policy)
    if window is not None and window <= now:
        return _outlasted(condition, now=now, policy=policy)
    later = [end for end in (window, quiet) if end is not None and end > now]
    if quiet_first:
        later.append(now + timedelta(seconds=LOOK_AGAIN_S))
    moved = replace(condition, deadline_at=min(later, default=None))
    if quiet_first:
        return unchanged(moved, "silent", f"{condition.entity.node_id} is not heard, so its quiet is no evidence")
    return unchanged(moved, "not_yet", "there were signals since this look was arranged")


def _forget(condition: Condition, *, now: datetime, policy: ConditionPolicy) -> Step:
    goes_at = now if condition.entity.check in RANK_CHECKS else forget_at(condition, policy)
    if now < goes_at:
        return unchanged(replace(condition, deadline_at=goes_at), "kept", "it was counted again meanwhile")
    reason = Reason(rule_id="condition.forgotten", sentence="cleared long enough ago that no copy can come any more")
    return Step(condition=None, effects=(), reason=reason)


def _close(condition: Condition, *, now: datetime, policy: ConditionPolicy) -> Step:
    sentence = f"the process ended over {policy.forget_after_s:.0f} s ago; its record is closed"
    reason = Reason(rule_id="condition.process_forgotten", sentence=sentence)
    closed = replace(
        condition,
        phase=TRANSITIONS[condition.phase, Trigger.PROCESS_FORGOTTEN],
        changed_at=now,
        # Due at once: the next look drops the record, after the effect below is out.
        deadline_at=now,
    )
    return Step(condition=closed, effects=(cleared(condition, reason, now),), reason=reason)


def _quiet(condition: Condition, *, now: datetime, policy: ConditionPolicy) -> Step:
    quiet_s = condition.ruled(policy).quiet_s
    sentence = (
        f"{condition.entity.check} of {named(condition.entity)}: no more for {quiet_s:g} s "
        f"after {condition.count} bad signals, and the node is heard"
    )
    reason = Reason(rule_id="condition.quiet", sentence=sentence, evidence_ids=condition.signal_ids[-1:])
    ended = replace(condition, phase=TRANSITIONS[condition.phase, Trigger.QUIET_PASSED], changed_at=now)
    ended = replace(ended, deadline_at=forget_at(ended, policy))
    return Step(condition=ended, effects=(cleared(ended, reason, now),), reason=reason)


def _outlasted(condition: Condition, *, now: datetime, policy: ConditionPolicy) -> Step:
    cause = condition.cause
    assert cause is not None, "raised by nothing"
    sentence = (
        f"{condition.entity.check} of {named(condition.entity)} was bad {condition.count} times and did not clear "
        f"within its tolerance of {condition.ruled(policy).window_s:g} s: {cause.detail}"
    )
    reason = Reason(rule_id="condition.outlasted", sentence=sentence[:2_048], evidence_ids=condition.signal_ids)
    failed = replace(condition, phase=TRANSITIONS[condition.phase, Trigger.WINDOW_PASSED], changed_at=now)
    failed = replace(failed, deadline_at=quiet_end(failed, policy))
    return Step(condition=failed, effects=(raised(failed, Tier.FAILURE, reason, now),), reason=reason)


def _is_heard(condition: Condition, heard_at: datetime | None, now: datetime, policy: ConditionPolicy) -> bool:
    if heard_at is None or (condition.bad_at is not None and heard_at <= condition.bad_at):
        return False
    return now - heard_at <= timedelta(seconds=policy.node_silent_s)
