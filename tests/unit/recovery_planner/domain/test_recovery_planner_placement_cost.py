"""Each term is zero when the place is as good as can be, one when it is as bad, and outweighs those behind it."""

import pytest

from recovery_planner.domain.nearness import NOWHERE, Stand
from recovery_planner.domain.placement_cost import Cost, Seats
from training_topology.layout import UNKNOWN_LAYOUT, layout_of
from training_topology.rank_labels import pack_labels


def seats_of(labels: dict[int, dict[str, str]], seats: dict[int, Stand], nproc: int = 1) -> Seats:
    return Seats(layout_of(pack_labels(labels), nproc=nproc), dict(seats))


def test_a_tensor_group_belongs_into_one_nvlink_domain() -> None:
    labels = {rank: {"tp": str(rank)} for rank in range(4)}
    home = Stand("r1", "s1", "d1")
    seats = seats_of(labels, {0: home, 1: home, 2: Stand("r1", "s1", "d2")})
    assert seats.cost(3, home).tensor == pytest.approx(1 / 3)
    assert seats.cost(3, Stand("r1", "s1", "d2")).tensor == pytest.approx(2 / 3)
    assert seats.cost(3, Stand("r1", "s1", "d3")).tensor == 1
    assert seats.cost(3, NOWHERE).tensor == 1, "not known to be inside is outside"


def test_pipeline_neighbours_are_near() -> None:
    labels = {rank: {"pp": str(rank)} for rank in range(3)}
    seats = seats_of(labels, {0: Stand("r1", "s1"), 2: Stand("r1", "s2")})
    assert seats.cost(1, Stand("r1", "s1")).pipeline == 0.25
    assert seats.cost(1, Stand("r1", "s3")).pipeline == 0.5
    assert seats.cost(1, Stand("r2", "s1x")).pipeline == 1


def test_replicas_are_spread_over_failure_domains() -> None:
    labels = {rank: {"dp": str(rank)} for rank in range(3)}
    seats = seats_of(labels, {0: Stand("r1"), 1: Stand("r2")})
    assert seats.cost(2, Stand("r1")).spread == 0.5
    assert seats.cost(2, Stand("r3")).spread == 0
    assert seats.cost(2, NOWHERE).spread == 0, "nothing is known to fail with it"


def test_without_labels_of_ranks_neighbours_by_rank_are_near() -> None:
    seats = Seats(UNKNOWN_LAYOUT, {0: Stand("r1"), 2: Stand("r2")})
    assert seats.cost(1, Stand("r1")).ring == 0.75
    assert seats.cost(1, Stand("r9")).ring == 1
    assert seats.cost(9, Stand("r1")) == Cost()


def test_a_known_layout_has_no_ring() -> None:
    labels = {rank: {"dp": str(rank)} for rank in range(3)}
    assert seats_of(labels, {0: Stand("r1"), 2: Stand("r2")}).cost(1, Stand("r3")).ring == 0


def test_counts_follow_who_sits_down_and_gets_up() -> None:
    labels = {rank: {"tp": str(rank % 2), "dp": str(rank // 2)} for rank in range(6)}
    one, two = Stand("r1", "s1", "d1"), Stand("r2", "s2", "d2")
    moved = seats_of(labels, {0: one, 1: one, 2: two, 3: two})
    moved.cost(4, one)
    moved.sit(4, one)
    moved.sit(5, two)
    moved.get_up(0)
    fresh = seats_of(labels, {1: one, 2: two, 3: two, 4: one, 5: two})
    for node_rank in range(6):
        for stand in (one, two, NOWHERE):
            assert moved.cost(node_rank, stand) == fresh.cost(node_rank, stand)


def test_a_seated_node_is_not_its_own_neighbour() -> None:
    labels = {rank: {"tp": str(rank)} for rank in range(2)}
    seats = seats_of(labels, {0: Stand("", "", "d1"), 1: Stand("", "", "d2")})
    assert seats.cost(0, Stand("", "", "d1")).tensor == 1
    assert seats.cost(0, Stand("", "", "d2")).tensor == 0


def test_terms_outweigh_those_behind_them() -> None:
    assert Cost(doubt=1).total > Cost(tensor=1, pipeline=1, spread=1, ring=1).total
    assert Cost(tensor=1).total > Cost(pipeline=1, spread=1, ring=1).total
    assert Cost(pipeline=1).total > Cost(spread=1, ring=1).total
    assert Cost(spread=1).total > Cost(ring=1).total


def test_a_cost_is_told_with_its_terms() -> None:
    assert str(Cost(tensor=0.5, spread=0.25)) == "50.8 (tensor 50, spread 0.75)"
    assert str(Cost()) == "0"
