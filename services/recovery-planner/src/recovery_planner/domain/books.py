"""Where the GPU-seconds of a job went: added up in its record whenever the use of its GPUs changes.

Pure values and functions: the planner, the simulator and a replay of the journal charge with the same code.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from fault_contracts.accounts import CAUSES_MAX, OTHER_CAUSES, CauseCost, IncidentAccount
from fault_contracts.faults import Attribution


class Use(StrEnum):
    """What the GPUs of a gang do."""

    WAITING = "waiting"
    """The first generation does not run yet."""
    TRAINING = "training"
    DOWN = "down"
    """An incident is open."""
    OVER = "over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What is in use, until something changes. One rank counts as one GPU."""

    use: Use
    ranks: int
    spare_ranks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """The sums of one run of a job.

    Attributes:
        since: kept from then on; None: not begun.
        at: booked until then; what came after it is not in the sums yet.
        undetected_s, undetected_gpu_s: of the training time, what was lost before the fault was known.
        unpriced: incidents whose lost steps have no price.
        causes: what each kind of fault cost, in order of appearance.
    """

    since: datetime | None = None
    at: datetime | None = None
    waiting_s: float = 0.0
    training_s: float = 0.0
    down_s: float = 0.0
    waiting_gpu_s: float = 0.0
    training_gpu_s: float = 0.0
    down_gpu_s: float = 0.0
    spare_gpu_s: float = 0.0
    undetected_s: float = 0.0
    undetected_gpu_s: float = 0.0
    redone_s: float = 0.0
    redone_gpu_s: float = 0.0
    steps_redone: int = 0
    incidents: int = 0
    unpriced: int = 0
    causes: tuple[CauseCost, ...] = ()


def accrue(books: Books, usage: Usage, now: datetime) -> Books:
    """Book the time since the last entry to what the GPUs did in it. A clock that went back books nothing."""
    if books.at is None:
        return replace(books, since=now, at=now)
    passed_s = (now - books.at).total_seconds()
    if passed_s <= 0 or usage.use is Use.OVER:
        return books if passed_s <= 0 else replace(books, at=now)
    gpu_s = passed_s * usage.ranks
    books = replace(books, at=now, spare_gpu_s=books.spare_gpu_s + passed_s * usage.spare_ranks)
    match usage.use:
        case Use.WAITING:
            return replace(books, waiting_s=books.waiting_s + passed_s, waiting_gpu_s=books.waiting_gpu_s + gpu_s)
        case Use.TRAINING:
            return replace(books, training_s=books.training_s + passed_s, training_gpu_s=books.training_gpu_s + gpu_s)
        case Use.DOWN:
            return replace(books, down_s=books.down_s + passed_s, down_gpu_s=books.down_gpu_s + gpu_s)


def charge(
    books: Books, account: IncidentAccount, *, attribution: Attribution, cause: str, attempts: int, detect_s: float
) -> Books:
    """Write the bill of a closed incident into the books.

    `detect_s` passed as training time and was none: it cannot be more than was booked as training.
    """
    undetected_s = min(max(0.0, detect_s), max(0.0, books.training_s - books.undetected_s))
    undetected_gpu_s = min(undetected_s * account.ranks, max(0.0, books.training_gpu_s - books.undetected_gpu_s))
    redone_gpu_s = account.redone_gpu_s or 0.0
    return replace(
        books,
        undetected_s=books.undetected_s + undetected_s,
        undetected_gpu_s=books.undetected_gpu_s + undetected_gpu_s,
        redone_s=books.redone_s + (redone_gpu_s / account.ranks if account.ranks else 0.0),
        redone_gpu_s=books.redone_gpu_s + redone_gpu_s,
        steps_redone=books.steps_redone + (account.steps_redone or 0),
        incidents=books.incidents + 1,
        unpriced=books.unpriced + (account.redone_gpu_s is None),
        causes=_charged(books.causes, account, attribution, cause, attempts),
    )


def _charged(
    causes: tuple[CauseCost, ...], account: IncidentAccount, attribution: Attribution, cause: str, attempts: int
) -> tuple[CauseCost, ...]:
    known = {(each.attribution, each.cause): place for place, each in enumerate(causes)}
    key = (attribution, cause)
    if key not in known and len(causes) >= CAUSES_MAX:
        key = (Attribution.UNKNOWN, OTHER_CAUSES)
    place = known.get(key, len(causes))
    before = causes[place] if place < len(causes) else CauseCost(attribution=key[0], cause=key[1])
    after = CauseCost(
        attribution=before.attribution,
        cause=before.cause,
        incidents=before.incidents + 1,
        attempts=before.attempts + attempts,
        nodes_taken=before.nodes_taken + len(account.nodes_taken),
        down_s=before.down_s + account.down_s,
        down_gpu_s=before.down_gpu_s + account.down_gpu_s,
        steps_redone=before.steps_redone + (account.steps_redone or 0),
        redone_gpu_s=before.redone_gpu_s + (account.redone_gpu_s or 0.0),
    )
    return (*causes[:place], after, *causes[place + 1 :])
