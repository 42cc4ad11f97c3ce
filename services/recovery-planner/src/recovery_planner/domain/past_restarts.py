"""The restarts of a job that a policy still has to know: when, at which level, for what."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from fault_contracts.faults import Attribution
from fault_contracts.recovery_level import RecoveryLevel

PAST_MAX = 512
"""Kept in the record, 60 KB. A budget above it is counted by JobSpec's own times, not by these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastRestart:
    """One restart that was decided.

    Attributes:
        level: as planned.
        cause: the verdict's slug; empty: there was none.
        node_id: the node that the verdict blames; empty: none, or the fault was the user's.
    """

    at: datetime
    level: RecoveryLevel
    attribution: Attribution
    cause: str
    node_id: str = ""


def remembered(past: tuple[PastRestart, ...], restart: PastRestart) -> tuple[PastRestart, ...]:
    """The past with one more."""
    return (*past, restart)[-PAST_MAX:]


def streak(past: tuple[PastRestart, ...], now: datetime, quiet_s: float) -> tuple[PastRestart, ...]:
    """The restarts since the job was last quiet for `quiet_s`; none when it has been quiet until now."""
    quiet = timedelta(seconds=quiet_s)
    begin = len(past)
    after = now
    for index in range(len(past) - 1, -1, -1):
        if after - past[index].at > quiet:
            break
        begin, after = index, past[index].at
    return past[begin:]


def within(past: tuple[PastRestart, ...], now: datetime, window_s: float) -> tuple[PastRestart, ...]:
    """Those inside a sliding window; one exactly `window_s` old has left it."""
    since = now - timedelta(seconds=window_s)
    return tuple(each for each in past if each.at > since)
