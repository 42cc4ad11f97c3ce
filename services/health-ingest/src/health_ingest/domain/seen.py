"""Earlier signals of a device, as few as the policy needs to tell one bad moment from a device that keeps failing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from health_ingest.domain.signal import Signal

SEEN_MAX = 32
"""Remembered of one (device, fault class). The policy's largest count is far below it."""
BURST_GAP_S = 180.0
"""Signals nearer to each other than this are one burst: a storm, or the several lines of one fault. Three minutes, as
NVSentinel's analyzer takes (RepeatedXIDErrorOnSameGPU)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One earlier burst of equal signals.

    Attributes:
        check: what it said, e.g. xid_13.
        at: the node's clock at the newest of them.
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
    """Every burst."""
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
    """The history with this signal in it, oldest first and bounded.

    A signal of a burst that is known moves the burst on: a storm of one job must not push out what other jobs met.
    """
    added = seen_of(signal)
    kept = list(history)
    for seen in reversed(history):
        if _what(seen) == _what(added) and abs(added.at - seen.at) < timedelta(seconds=BURST_GAP_S):
            kept.remove(seen)
            added = replace(added, at=max(added.at, seen.at))
            break
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
    return _bursts([seen.at for seen in alike])


def seen_within(history: Sequence[Seen], check: str, *, within_s: float, now: datetime) -> bool:
    """Whether another check of the device was seen lately."""
    since = now - timedelta(seconds=within_s)
    return any(seen.check == check and seen.at >= since for seen in history)


def _bursts(times: list[datetime]) -> int:
    times.sort()
    gap = timedelta(seconds=BURST_GAP_S)
    return sum(1 for before, at in zip([None, *times], times, strict=False) if before is None or at - before >= gap)


def _what(seen: Seen) -> tuple[str, str, str]:
    return (seen.check, seen.job_id, seen.location)
