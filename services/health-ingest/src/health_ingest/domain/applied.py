"""Which messages of a stream a record has taken in: exact however often and in whatever order they come.

A message's place is its sequence in the stream, which every redelivery has again. A record keeps the floor (up to which
the whole durable is settled, see service_kit.ports.Batch) and, above it, the runs of sequences that it has taken in.
Runs may hold sequences of other entities: of those this record needs nothing, so for it they are done. ADR 0014.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

RUNS_MAX = 8_192
"""Twice what the readers of one durable hold together (service_kit's BATCH_PENDING_MAX): each message in hand makes at
most one hole, and so does each foreign message between; the floor follows twice a second. Some 100 KB of JSON."""

Run = tuple[int, int]
"""First and last sequence, both included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a message stands: the stream's life (one that is made anew counts from 1 again) and the sequence."""

    life: str
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What is taken in. `runs` are sorted, apart from each other, and above `floor`."""

    life: str = ""
    floor: int = 0
    runs: tuple[Run, ...] = ()

    def __post_init__(self) -> None:
        assert len(self.runs) <= RUNS_MAX, "too many runs"

    def has(self, place: Place) -> bool:
        """Whether a message was taken in before."""
        if place.life != self.life:
            return False
        if place.sequence <= self.floor:
            return True
        at = bisect_right(self.runs, place.sequence, key=lambda run: run[0]) - 1
        return at >= 0 and place.sequence <= self.runs[at][1]

    def with_runs(self, life: str, runs: Iterable[Run], settled: int) -> Applied | None:
        """After more was taken in. None: there would be more runs than are kept, so wait until the floor moves."""
        known: Sequence[Run] = self.runs if life == self.life else ()
        floor = max(self.floor, settled) if life == self.life else settled
        joined = joined_runs((*known, *runs), above=floor)
        return Applied(life=life, floor=floor, runs=joined) if len(joined) <= RUNS_MAX else None


NOTHING_APPLIED = Applied()
"""Of a record that is new."""


def joined_runs(runs: Iterable[Run], *, above: int = 0) -> tuple[Run, ...]:
    """Sorted, with neighbours and overlaps joined, and without what is not above a floor."""
    found: list[Run] = []
    for first, last in sorted(runs):
        if last <= above:
            continue
        first = max(first, above + 1)
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return tuple(found)


def runs_around(sequences: Iterable[int], whole: Sequence[Run]) -> tuple[Run, ...]:
    """Those runs of a batch (`whole`, sorted) that hold one of `sequences`, all of which are in the batch."""
    found: list[Run] = []
    for sequence in sorted(sequences):
        if found and sequence <= found[-1][1]:
            continue
        at = bisect_right(whole, sequence, key=lambda run: run[0]) - 1
        assert at >= 0, "a message before its batch"
        assert sequence <= whole[at][1], "a message that is not in its batch"
        found.append(whole[at])
    return tuple(found)
