"""Who is slow among its peers."""

from itertools import combinations

from node_agent.domain.validation_blame import PairEnd, PairOutcome
from node_agent.domain.validation_speed import SpeedPolicy, slow_ones

POLICY = SpeedPolicy(ratio_min=0.5)
FAST = 10e9


def outcome(low: int, high: int, speed: float | None, *, between_nodes: bool = False) -> PairOutcome:
    """One measured pair."""
    return PairOutcome(pair=(low, high), end=PairEnd.OK, bytes_per_s=speed, between_nodes=between_nodes)


def run(count: int, slow: int, part: float = 0.1) -> list[PairOutcome]:
    """All at nearly the same speed, and one member at a part of it with everybody."""
    return [
        outcome(a, b, FAST * (part if slow in (a, b) else 1.0) * (1 + 0.01 * (a + b)))
        for a, b in combinations(range(count), 2)
    ]


def test_a_slow_member_is_named_alone() -> None:
    for count in (3, 4, 8):
        found = slow_ones(run(count, slow=2), policy=POLICY)
        assert set(found.members) == {2}, count
        assert found.pairs == {}
        assert found.members[2].rule_id == "validation.slow_member"


def test_equal_speeds_are_nobodys_fault() -> None:
    assert slow_ones(run(4, slow=99), policy=POLICY).members == {}


def test_a_little_slower_is_not_slow() -> None:
    assert slow_ones(run(4, slow=1, part=0.6), policy=POLICY).members == {}


def test_wide_scatter_is_not_an_outlier() -> None:
    speeds = [4e9, 11e9, 15e9, 3e9, 8e9, 6e9]
    pairs = [outcome(a, b, speed) for (a, b), speed in zip(combinations(range(4), 2), speeds, strict=True)]
    assert slow_ones(pairs, policy=POLICY).members == {}


def test_one_slow_pair_is_a_pair() -> None:
    pairs = [outcome(a, b, FAST * (0.1 if (a, b) == (1, 3) else 1.0)) for a, b in combinations(range(5), 2)]
    found = slow_ones(pairs, policy=POLICY)
    assert found.members == {}
    assert set(found.pairs) == {(1, 3)}


def test_pairs_between_nodes_are_held_against_their_like() -> None:
    """Ranks 0-1, 2-3, 4-5 share a node each; the network is 20 times slower than the link inside, and that is right."""
    pairs = [
        outcome(a, b, FAST if a // 2 == b // 2 else FAST / 20, between_nodes=a // 2 != b // 2)
        for a, b in combinations(range(6), 2)
    ]
    found = slow_ones(pairs, policy=POLICY)
    assert (found.members, found.pairs) == ({}, {})


def test_a_bad_card_shows_between_nodes_although_the_inner_link_is_fast() -> None:
    pairs = [
        outcome(a, b, FAST if a // 2 == b // 2 else FAST / (200 if 5 in (a, b) else 20), between_nodes=a // 2 != b // 2)
        for a, b in combinations(range(6), 2)
    ]
    assert set(slow_ones(pairs, policy=POLICY).members) == {5}


def test_two_members_are_not_compared() -> None:
    assert slow_ones([outcome(0, 1, 1.0)], policy=POLICY).members == {}


def test_failed_pairs_have_no_speed() -> None:
    failed = PairOutcome(pair=(0, 1), end=PairEnd.CORRUPT, bytes_per_s=1.0)
    assert slow_ones([failed, *run(4, slow=99)[1:]], policy=POLICY).members == {}
