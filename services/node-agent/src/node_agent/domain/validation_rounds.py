"""Are the conditions of a node clean on two consecutive fresh rounds?

What was seen before the validation began proves nothing about now, and one clean look may be the moment between two
faults. So a round is: every check of the node, each looked at after the round began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fault_contracts.payload import Health

ROUNDS_WANTED = 2
NAMED_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCheck:
    """One row of the node's table: what, how it is, and when it was looked at last.

    Attributes:
        renewed: a sweep looks at it again and again. False: something that happened; it counts when it happened now.
    """

    name: str
    health: Health
    detail: str = ""
    seen_at: datetime
    renewed: bool = True


class RoundsEnd(StrEnum):
    """Where the rounds stand. Closed."""

    WAITING = "waiting"
    CLEAN = "clean"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class FreshRounds:
    """Rounds done so far, and when the one under way began."""

    began_at: datetime
    done: int = 0
    end: RoundsEnd = RoundsEnd.WAITING
    sentence: str = ""


def look(state: FreshRounds, rows: Sequence[SeenCheck], *, now: datetime) -> FreshRounds:
    """Take in one answer of the node's agent. A bad row that is fresh ends it at once; a stale one is waited for."""
    if state.end is not RoundsEnd.WAITING:
        return state
    swept = [row for row in rows if row.renewed]
    if not swept:
        return _with(state, RoundsEnd.UNKNOWN, "the agent watches nothing on this node")
    fresh = [row for row in rows if row.seen_at > state.began_at]
    bad = [row for row in fresh if row.health is Health.BAD]
    if bad:
        return _with(state, RoundsEnd.BAD, f"bad in round {state.done + 1}: {_named(bad)}")
    stale = [row for row in swept if row.seen_at <= state.began_at]
    if stale:
        return _with(state, RoundsEnd.WAITING, f"not looked at yet in round {state.done + 1}: {_named(stale)}")
    unknown = [row for row in fresh if row.health is Health.UNKNOWN]
    if unknown:
        return _with(state, RoundsEnd.UNKNOWN, f"unknown in round {state.done + 1}: {_named(unknown)}")
    done = state.done + 1
    if done >= ROUNDS_WANTED:
        sentence = f"{len(swept)} checks were good in {done} consecutive rounds"
        return FreshRounds(began_at=state.began_at, done=done, end=RoundsEnd.CLEAN, sentence=sentence)
    return FreshRounds(began_at=now, done=done, sentence=f"round {done} is clean")


def _with(state: FreshRounds, end: RoundsEnd, sentence: str) -> FreshRounds:
    return FreshRounds(began_at=state.began_at, done=state.done, end=end, sentence=sentence)


def _named(rows: Sequence[SeenCheck]) -> str:
    parts = [f"{row.name}{f' ({row.detail})' if row.detail else ''}" for row in rows[:NAMED_MAX]]
    return ", ".join(parts) + (f" and {len(rows) - NAMED_MAX} more" if len(rows) > NAMED_MAX else "")
