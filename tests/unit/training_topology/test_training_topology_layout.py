"""Who works with whom follows from the labels of ranks; labels that mean nothing cost nothing."""

import pytest

from training_topology.layout import UNKNOWN_LAYOUT, layout_of
from training_topology.rank_labels import pack_labels


def megatron(*, tp: int, pp: int, dp: int) -> str:
    """Labels in Megatron's usual order: tp fastest, then dp, then pp."""
    table = {}
    for rank in range(tp * pp * dp):
        table[rank] = {"tp": str(rank % tp), "dp": str(rank // tp % dp), "pp": str(rank // (tp * dp))}
    return pack_labels(table)


def test_without_labels_nothing_is_known() -> None:
    assert layout_of("", nproc=8) == UNKNOWN_LAYOUT
    assert not layout_of("", nproc=8).is_known
    assert layout_of(pack_labels({0: {}, 1: {"name": "x"}}), nproc=1) == UNKNOWN_LAYOUT


def test_a_tensor_group_over_two_nodes() -> None:
    layout = layout_of(megatron(tp=4, pp=1, dp=2), nproc=2)
    assert layout.tensor.groups == ((0, 1), (2, 3))
    assert layout.tensor.of(3) == (1,)
    assert layout.replicas.groups == ((0, 2), (1, 3)), "the same two columns of the tensors in both replicas"


def test_a_tensor_group_inside_a_node_needs_no_care() -> None:
    layout = layout_of(megatron(tp=8, pp=2, dp=2), nproc=8)
    assert layout.tensor.groups == ()
    assert layout.neighbours == {0: (2,), 1: (3,), 2: (0,), 3: (1,)}
    assert layout.replicas.groups == ((0, 1), (2, 3))
    assert layout.is_known


def test_the_middle_of_a_pipeline_has_two_neighbours() -> None:
    layout = layout_of(megatron(tp=1, pp=3, dp=1), nproc=1)
    assert layout.neighbours == {0: (1,), 1: (0, 2), 2: (1,)}


def test_stages_that_are_no_numbers_have_no_neighbours() -> None:
    assert layout_of(pack_labels({0: {"pp": "first"}, 1: {"pp": "last"}}), nproc=1).neighbours == {}


def test_labels_of_half_of_the_ranks_are_used() -> None:
    layout = layout_of(pack_labels({0: {"dp": "0"}, 3: {"dp": "1"}}), nproc=1)
    assert layout.replicas.groups == ((0, 3),)


def test_free_text_does_not_split_groups() -> None:
    table = {rank: {"dp": str(rank), "name": f"worker-{rank}"} for rank in range(4)}
    assert layout_of(pack_labels(table), nproc=1).replicas.groups == ((0, 1, 2, 3),)


def test_one_label_for_everybody_is_one_group_and_no_square() -> None:
    table = {rank: {"tp": str(rank), "pp": "1"} for rank in range(5_000)}
    layout = layout_of(pack_labels(table), nproc=1)
    assert [len(group) for group in layout.tensor.groups] == [5_000]
    assert layout.neighbours == {}


def test_damage_is_said() -> None:
    with pytest.raises(ValueError, match="damaged"):
        layout_of("AAAA", nproc=1)
