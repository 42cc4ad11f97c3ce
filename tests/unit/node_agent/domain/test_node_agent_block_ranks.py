"""Words about a block count only for their own version and from their own place."""

import itertools

from node_agent.domain.block_ranks import MOVES, BlockPlace, BlockRanks, begun
from training_topology.identity import LocalRank

P = BlockPlace
R0, R1 = LocalRank(0), LocalRank(1)


def at(place: BlockPlace) -> BlockRanks:
    return BlockRanks(topology_version=3, nproc=2, places={R0: place})


def test_the_table_and_nothing_else() -> None:
    for before, after in itertools.product(BlockPlace, BlockPlace):
        moved = at(before).moved(R0, after, topology_version=3)
        assert (moved is not None) == (after in MOVES[before]), (before, after)


def test_a_word_of_another_version_changes_nothing() -> None:
    for version in (2, 4):
        assert at(P.INSIDE).moved(R0, P.AT_BARRIER, topology_version=version) is None


def test_a_late_word_of_the_old_generation_cannot_pull_a_survivor_out_of_the_new_one() -> None:
    blocks = begun(4, 2, survivors=[R0])
    assert blocks.moved(R0, P.AT_BARRIER, topology_version=3) is None
    assert blocks.place_of(R0) is P.INSIDE
    assert blocks.place_of(R1) is P.OUTSIDE


def test_all_inside_only_when_every_rank_has_announced() -> None:
    blocks = begun(3, 2)
    one = blocks.moved(R0, P.INSIDE, topology_version=3)
    assert one is not None
    assert not one.all_inside
    both = one.moved(R1, P.INSIDE, topology_version=3)
    assert both is not None
    assert both.all_inside
    assert not both.gone(R0).all_inside


def test_a_rank_that_does_not_exist_is_refused() -> None:
    assert begun(3, 2).moved(LocalRank(2), P.INSIDE, topology_version=3) is None


def test_the_reason_of_an_unfit_rank_is_kept() -> None:
    unfit = at(P.INSIDE).moved(R0, P.UNFIT, topology_version=3, reason="sick")
    assert unfit is not None
    assert unfit.reasons == {R0: "sick"}
