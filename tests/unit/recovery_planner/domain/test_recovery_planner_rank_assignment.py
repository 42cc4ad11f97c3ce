"""First tables follow wishes and arrival; later ones move only what must move."""

from datetime import UTC, datetime

from recovery_planner.domain.member import Member
from recovery_planner.domain.rank_assignment import as_assignments, first_table, next_table
from training_topology.topology import RankTable


def member(name: str, arrival: int, wanted: int | None = None, rack: str = "") -> Member:
    return Member(
        node_id=name,
        instance_id=f"{name}/1",
        address=f"{name}.example",
        master_port=1,
        arrival=arrival,
        reported_at=datetime(2030, 1, 1, tzinfo=UTC),
        node_rank_wanted=wanted,
        labels={"rack": rack} if rack else {},
    )


def table(*members: Member, nnodes: int) -> list[str] | None:
    made = first_table(members, nnodes=nnodes, nproc=2, topology_version=1)
    return None if made is None else [row.node_id for row in made.rows]


def test_too_few() -> None:
    assert table(member("a", 0), nnodes=2) is None


def test_order_of_arrival() -> None:
    assert table(member("late", 1), member("early", 0), nnodes=2) == ["early", "late"]


def test_nodes_of_one_rack_get_neighbouring_places_and_who_came_first_is_in() -> None:
    came = [member("a", 0, rack="r1"), member("b", 1, rack="r2"), member("c", 2, rack="r1"), member("d", 3, rack="r1")]
    assert table(*came, nnodes=4) == ["a", "c", "d", "b"]
    assert table(*came, nnodes=3) == ["a", "c", "b"]
    assert table(*came, member("e", 4, wanted=1), nnodes=3) == ["a", "e", "b"]


def test_wishes_come_first() -> None:
    assert table(member("a", 0), member("b", 1, wanted=0), member("c", 2), nnodes=2) == ["b", "a"]


def test_one_who_wishes_takes_the_place_of_one_who_came_earlier() -> None:
    assert table(member("a", 0), member("b", 1), member("c", 2, wanted=0), nnodes=2) == ["c", "a"]


def test_two_wish_for_the_same() -> None:
    assert table(member("a", 0, wanted=1), member("b", 1, wanted=1), nnodes=2) == ["b", "a"]


def test_a_wish_outside_the_gang_is_no_wish() -> None:
    assert table(member("a", 0, wanted=7), member("b", 1), nnodes=2) == ["a", "b"]


def test_survivors_keep_their_ranks() -> None:
    members = {name: member(name, n) for n, name in enumerate(("a", "b", "c", "s"))}
    first = first_table(list(members.values())[:3], nnodes=3, nproc=2, topology_version=4)
    assert isinstance(first, RankTable)
    after = next_table(first, members, {1: "s"})
    assert after.topology_version == 5
    assert [row.node_id for row in after.rows] == ["a", "s", "c"]
    assert list(after.ranks_of(after.rows[1].node_id)) == [2, 3]
    assert as_assignments(after.rows)[1].address == "s.example"
