"""Who is tested with whom, and when: a round-robin tournament, so that every pair meets once in n - 1 rounds.

The circle method (https://en.wikipedia.org/wiki/Round-robin_tournament#Circle_method): one place is fixed, the others
turn by one each round. With an odd number one member sits out each round, and there are n rounds.
"""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[int, int]
"""Two members, the smaller first."""


def rounds_of(members: Sequence[int]) -> tuple[tuple[Pair, ...], ...]:
    """The rounds of a tournament; within a round no member plays twice, so its pairs run side by side.

    Args:
        members: ranks, each once, in any order.
    """
    assert len(set(members)) == len(members), "a member cannot meet itself"
    if len(members) < 2:
        return ()
    places: list[int | None] = [*sorted(members)]
    if len(places) % 2:
        places.append(None)
    rounds = []
    for _ in range(len(places) - 1):
        pairs = []
        for low, high in zip(places[: len(places) // 2], reversed(places[len(places) // 2 :]), strict=True):
            if low is not None and high is not None:
                pairs.append((min(low, high), max(low, high)))
        rounds.append(tuple(sorted(pairs)))
        places = [places[0], places[-1], *places[1:-1]]
    return tuple(rounds)
