"""The schedule of the tournament: everybody meets everybody once, and nobody plays twice in a round."""

from collections import Counter
from itertools import combinations

import pytest

from node_agent.domain.validation_pairs import rounds_of


@pytest.mark.parametrize("count", range(2, 18))
def test_every_pair_meets_once(count: int) -> None:
    rounds = rounds_of(range(count))
    met = Counter(pair for pairs in rounds for pair in pairs)
    assert met == Counter(combinations(range(count), 2))
    assert len(rounds) == (count - 1 if count % 2 == 0 else count)


@pytest.mark.parametrize("count", range(2, 18))
def test_nobody_plays_twice_in_a_round(count: int) -> None:
    for pairs in rounds_of(range(count)):
        players = [member for pair in pairs for member in pair]
        assert len(players) == len(set(players))


def test_members_need_not_be_numbered_without_gaps() -> None:
    assert {pair for pairs in rounds_of([7, 2, 5]) for pair in pairs} == {(2, 5), (2, 7), (5, 7)}


@pytest.mark.parametrize("members", [[], [3]])
def test_one_alone_meets_nobody(members: list[int]) -> None:
    assert rounds_of(members) == ()
