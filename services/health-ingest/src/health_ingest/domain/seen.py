"""Earlier signals of a device, as few as the policy needs to tell one bad moment from a device that keeps failing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from health_ingest.domain.signal import Signal

SEEN_MAX = 32
"""Remembered of one (device, fault class). The policy's largest count is far below it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One earlier signal.

    Attributes:
        check: what it said, e.g. xid_13.
        at: the node's clock.
        job_id: of the job that used the device; empty: nobody knows.
        location: part of the device, e.g. gpc1/tpc3/sm0; empty: the signal named none.
    """

    check: str
    at: datetime
    job_id: str = ""
    location: str = ""


class Distinct(StrEnum):
    """What is counted."""

    ANY = "any"
    """Every signal."""
    JOBS = "jobs"
    """Jobs: one job that fails again and again proves nothing against the device."""


class Same(StrEnum):
    """What must be the same in all of them."""

    GPU = "gpu"
    SM = "sm"
    """The same streaming multiprocessor."""


def seen_of(signal: Signal) -> Seen:
    """What is remembered of a signal."""
    return Seen(
        check=signal.entity.check,
        at=signal.observed_at,
        job_id=signal.job_id or signal.attributes.get("job_id", ""),
        location=signal.attributes.get("location", ""),
    )


def remember(history: Sequence[Seen], signal: Signal) -> tuple[Seen, ...]:
    """The history with this signal in it, bounded.

    Of equal (check, job, location) the newest two are kept: a storm of one job must not push out what other jobs met.
    """
    added = seen_of(signal)
    alike = [seen for seen in history if _what(seen) == _what(added)]
    dropped = alike[0] if len(alike) >= 2 else None
    kept = [seen for seen in history if seen is not dropped]
    return (*kept, added)[-SEEN_MAX:]


def times_seen(
    history: Sequence[Seen], signal: Signal, *, within_s: float, distinct: Distinct, same: Same, now: datetime
) -> int:
    """How often the like of this signal was seen within the window, this one included."""
    current = seen_of(signal)
    if same is Same.SM and not current.location:
        return 1
    since = now - timedelta(seconds=within_s)
    alike = [
        seen
        for seen in (*history, current)
        if seen.check == current.check and seen.at >= since and (same is Same.GPU or seen.location == current.location)
    ]
    if distinct is Distinct.JOBS:
        return len({seen.job_id for seen in alike if seen.job_id})
    return len({seen.at for seen in alike})


def _what(seen: Seen) -> tuple[str, str, str]:
    return (seen.check, seen.job_id, seen.location)
