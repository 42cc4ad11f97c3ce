"""The rank table and its deltas."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training_topology.identity import NodeId, NodeRank, Rank
from training_topology.topology import NodeRow, RankTable, apply_rows, changed_rows


def row(node_rank: int, node_id: str, nproc: int = 2) -> NodeRow:
    return NodeRow(node_rank=NodeRank(node_rank), node_id=NodeId(node_id), address=f"{node_id}.local", nproc=nproc)


def table(version: int, *node_ids: str, nproc: int = 2) -> RankTable:
    return RankTable(topology_version=version, rows=tuple(row(n, node_id, nproc) for n, node_id in enumerate(node_ids)))


@st.composite
def tables(draw: st.DrawFn, version: int) -> RankTable:
    names = draw(st.lists(st.sampled_from([f"n{n}" for n in range(9)]), min_size=1, max_size=8, unique=True))
    rows = [row(n, name, draw(st.integers(1, 4))) for n, name in enumerate(names)]
    return RankTable(topology_version=version, rows=tuple(rows))


@given(tables(1), tables(2))
def test_a_delta_brings_the_old_table_to_the_new_one(old: RankTable, new: RankTable) -> None:
    delta = changed_rows(old, new)
    assert apply_rows(old, topology_version=2, nnodes=new.nnodes, rows=delta) == new
    assert all(changed not in old.rows for changed in delta)


@given(tables(1))
def test_every_rank_lives_on_the_node_that_lists_it(gang: RankTable) -> None:
    for node in gang.rows:
        for rank in gang.ranks_of(node.node_id):
            assert gang.node_of(Rank(rank)) == node.node_id
    assert gang.node_of(Rank(gang.world_size)) is None
    assert gang.node_of(Rank(-1)) is None


def test_a_spare_takes_the_place_and_survivors_keep_theirs() -> None:
    old, new = table(1, "a", "b", "c"), table(2, "a", "spare", "c")
    assert changed_rows(old, new) == (row(1, "spare"),)
    assert list(new.ranks_of(NodeId("c"))) == list(old.ranks_of(NodeId("c"))) == [4, 5]
    assert list(new.ranks_of(NodeId("b"))) == []
    assert new.row_of(NodeId("b")) is None


def test_a_newcomer_without_a_table_must_read_the_whole_one() -> None:
    delta = changed_rows(table(1, "a", "b"), table(2, "a", "spare"))
    with pytest.raises(ValueError, match="read the whole table"):
        apply_rows(RankTable(topology_version=0), topology_version=2, nnodes=2, rows=delta)


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ((row(1, "a"),), "dense and in order"),
        ((row(0, "a"), row(2, "b")), "dense and in order"),
        ((row(1, "a"), row(0, "b")), "dense and in order"),
        ((row(0, "a"), row(1, "a")), "two node_ranks"),
    ],
)
def test_a_table_with_holes_or_doubles_is_refused(rows: tuple[NodeRow, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        RankTable(topology_version=1, rows=rows)


def test_a_negative_version_is_refused_and_an_empty_table_is_one() -> None:
    with pytest.raises(ValueError, match="negative"):
        RankTable(topology_version=-1)
    empty = RankTable(topology_version=0)
    assert (empty.nnodes, empty.world_size) == (0, 0)
