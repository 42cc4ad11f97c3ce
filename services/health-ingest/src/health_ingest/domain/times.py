"""When time alone changes a condition: the end of its window, of the quiet that it needs, of its memory."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from health_ingest.domain.condition import Condition, Phase
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.ruling import Clears
from health_ingest.domain.signal import RANK_CHECKS


def window_end(condition: Condition, policy: ConditionPolicy) -> datetime | None:
    """When a problem becomes a failure; None: it may last."""
    window_s = condition.ruled(policy).window_s
    if condition.phase is not Phase.PROBLEM or window_s is None or not math.isfinite(window_s):
        return None
    assert condition.raised_at is not None, "raised at no time"
    return condition.raised_at + timedelta(seconds=window_s)


def quiet_end(condition: Condition, policy: ConditionPolicy) -> datetime | None:
    """When quiet has lasted long enough; None: quiet ends nothing here."""
    ruling = condition.ruled(policy)
    if condition.phase is Phase.CLEAR or ruling.clears is not Clears.QUIET or ruling.quiet_s is None:
        return None
    newest = condition.bad_at or condition.raised_at
    assert newest is not None, "raised at no time"
    return newest + timedelta(seconds=ruling.quiet_s)


def forget_at(condition: Condition, policy: ConditionPolicy) -> datetime:
    """When a record can go: no copy of its signals can come any more, and nobody looks at it."""
    kept_s = policy.forget_after_s
    only_recorded = condition.phase is Phase.CLEAR and not condition.condition_id
    if only_recorded or condition.clears(policy) is Clears.RESET:
        kept_s = max(kept_s, policy.keep_s)
    times = [at for at in (condition.changed_at, condition.bad_at) if at is not None]
    assert times, "a record of nothing"
    return max(times) + timedelta(seconds=kept_s)


def alarm_at(condition: Condition, policy: ConditionPolicy) -> datetime | None:
    """When to look at a condition that is raised; None: only signals and resets change it.

    A process never becomes well again: its record goes by time.
    """
    if condition.entity.check in RANK_CHECKS:
        return forget_at(condition, policy)
    ends = [end for end in (window_end(condition, policy), quiet_end(condition, policy)) if end is not None]
    return min(ends, default=None)
