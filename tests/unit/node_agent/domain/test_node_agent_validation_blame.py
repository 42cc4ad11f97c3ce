"""Who is named after a tournament, and when nobody is."""

from itertools import combinations

from node_agent.domain.validation_blame import Blame, PairEnd, PairOutcome, blame_of
from node_agent.domain.validation_pairs import Pair


def tournament(
    count: int, failed: dict[Pair, PairEnd], culprits: dict[Pair, dict[int, PairEnd]] | None = None
) -> Blame:
    """All pairs are good but those given."""
    return blame_of(
        [
            PairOutcome(pair=pair, end=failed.get(pair, PairEnd.OK), culprits=(culprits or {}).get(pair, {}))
            for pair in combinations(range(count), 2)
        ]
    )


def fails_with_all(member: int, count: int, end: PairEnd = PairEnd.CORRUPT) -> dict[Pair, PairEnd]:
    """The member is bad with everybody."""
    return {pair: end for pair in combinations(range(count), 2) if member in pair}


def test_a_clean_tournament_blames_nobody() -> None:
    assert tournament(6, {}) == Blame(members={}, pairs={})


def test_who_fails_with_two_partners_is_named_and_the_partners_are_not() -> None:
    blame = tournament(3, fails_with_all(1, 3))
    assert set(blame.members) == {1}
    assert blame.pairs == {}
    assert blame.members[1].rule_id == "validation.fails_with_partners"
    assert "ranks 0, 2" in blame.members[1].sentence


def test_one_bad_pair_names_the_pair_and_no_member() -> None:
    blame = tournament(4, {(1, 3): PairEnd.STALLED})
    assert blame.members == {}
    assert set(blame.pairs) == {(1, 3)}
    assert "cannot tell" in blame.pairs[(1, 3)].sentence


def test_two_members_cannot_tell_which_of_them() -> None:
    assert set(tournament(2, {(0, 1): PairEnd.CORRUPT}).pairs) == {(0, 1)}


def test_two_bad_members_do_not_drag_the_good_ones_with_them() -> None:
    blame = tournament(4, fails_with_all(0, 4) | fails_with_all(2, 4))
    assert set(blame.members) == {0, 2}
    assert blame.pairs == {}


def test_three_that_fail_among_themselves_only_are_not_told_apart() -> None:
    blame = tournament(5, dict.fromkeys([(0, 1), (0, 2), (1, 2)], PairEnd.STALLED))
    assert blame.members == {}
    assert set(blame.pairs) == {(0, 1), (0, 2), (1, 2)}
    assert blame.pairs[(0, 1)].rule_id == "validation.pairs_fail_together"


def test_when_everything_fails_it_is_not_everybodys_fault() -> None:
    everything = dict.fromkeys(combinations(range(4), 2), PairEnd.STALLED)
    blame = tournament(4, everything)
    assert blame.members == {}
    assert len(blame.pairs) == 6


def test_who_died_is_named_by_its_own_end_and_its_partner_is_free() -> None:
    failed = {(1, 2): PairEnd.DIED, (0, 2): PairEnd.NOT_RUN, (2, 3): PairEnd.NOT_RUN}
    blame = tournament(4, failed, {(1, 2): {2: PairEnd.DIED}})
    assert set(blame.members) == {2}
    assert blame.members[2].rule_id == "validation.member_died"
    assert blame.pairs == {}


def test_who_is_silent_is_named_even_with_one_partner() -> None:
    blame = tournament(2, {(0, 1): PairEnd.SILENT}, {(0, 1): {0: PairEnd.SILENT}})
    assert set(blame.members) == {0}
    assert blame.members[0].rule_id == "validation.member_silent"


def test_a_bad_pair_beside_a_bad_member_is_still_told() -> None:
    blame = tournament(6, fails_with_all(0, 6) | {(3, 4): PairEnd.STALLED})
    assert set(blame.members) == {0}
    assert set(blame.pairs) == {(3, 4)}


def test_both_members_of_one_pair_can_be_gone() -> None:
    blame = tournament(4, {(0, 3): PairEnd.DIED}, {(0, 3): {0: PairEnd.DIED, 3: PairEnd.SILENT}})
    assert {member: reason.rule_id for member, reason in blame.members.items()} == {
        0: "validation.member_died",
        3: "validation.member_silent",
    }
