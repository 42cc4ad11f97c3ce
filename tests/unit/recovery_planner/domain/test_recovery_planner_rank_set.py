"""Intervals say what a set of ranks says, in less room."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from recovery_planner.domain.rank_set import RankSet, add, count, covers


def of(ranks: list[int]) -> RankSet:
    made: RankSet = ()
    for rank in ranks:
        made = add(made, rank)
    return made


@given(st.lists(st.integers(min_value=0, max_value=60)))
def test_it_is_the_set(ranks: list[int]) -> None:
    made = of(ranks)
    members = {rank for first, last in made for rank in range(first, last + 1)}
    assert members == set(ranks)
    assert count(made) == len(set(ranks))
    for (_, last), (first, _) in pairwise(made):
        assert last + 1 < first, "touching intervals were not merged"


@given(st.lists(st.integers(0, 30)), st.lists(st.integers(0, 30)))
def test_covers_is_superset(have: list[int], want: list[int]) -> None:
    assert covers(of(have), of(want)) == (set(have) >= set(want))


def test_a_hundred_thousand_ranks_take_one_pair() -> None:
    made: RankSet = ()
    for rank in range(100_000):
        made = add(made, rank)
    assert made == ((0, 99_999),)
