"""A set of ranks as intervals, so that 100,000 ranks that confirmed a checkpoint take one pair of numbers."""

from __future__ import annotations

from bisect import bisect_right

RankSet = tuple[tuple[int, int], ...]
"""Disjoint, rising, not touching intervals [first, last]."""


def add(ranks: RankSet, rank: int) -> RankSet:
    """The set with one rank more."""
    place = bisect_right(ranks, (rank, rank))
    if place and ranks[place - 1][1] >= rank:
        return ranks
    if place < len(ranks) and ranks[place][0] == rank:
        return ranks
    first = last = rank
    low, high = place, place
    if place and ranks[place - 1][1] == rank - 1:
        low, first = place - 1, ranks[place - 1][0]
    if place < len(ranks) and ranks[place][0] == rank + 1:
        high, last = place + 1, ranks[place][1]
    return (*ranks[:low], (first, last), *ranks[high:])


def count(ranks: RankSet) -> int:
    """How many ranks."""
    return sum(last - first + 1 for first, last in ranks)


def covers(ranks: RankSet, wanted: RankSet) -> bool:
    """Every wanted rank is in the set."""
    return all(any(first <= low and high <= last for first, last in ranks) for low, high in wanted)


def contains(ranks: RankSet, rank: int) -> bool:
    """The rank is in the set."""
    place = bisect_right(ranks, rank, key=lambda interval: interval[0])
    return place > 0 and ranks[place - 1][1] >= rank
