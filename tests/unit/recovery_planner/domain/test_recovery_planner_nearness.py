"""Where nodes stand, and how near two of them are."""

from datetime import UTC, datetime

from recovery_planner.domain.member import Member
from recovery_planner.domain.nearness import NOWHERE, Stand, distance, in_blocks, stand_of


def member(node: str, arrival: int, **labels: str) -> Member:
    return Member(
        node_id=node,
        instance_id=node,
        address=node,
        master_port=29_500,
        arrival=arrival,
        reported_at=datetime(2030, 1, 1, tzinfo=UTC),
        labels=labels,
    )


def test_distance_falls_with_what_is_shared() -> None:
    here = Stand("r1", "s1", "d1")
    assert distance(here, Stand("r9", "s9", "d1")) == 0, "NVLink goes where it goes"
    assert distance(here, Stand("r1", "s1", "d2")) == 0
    assert distance(here, Stand("r1", "s2", "d2")) == 0.5
    assert distance(here, Stand("r2", "s2", "d2")) == 1


def test_what_is_not_told_is_not_near() -> None:
    assert distance(NOWHERE, NOWHERE) == 1
    assert not NOWHERE.is_known
    assert stand_of({"zone": "x"}) == NOWHERE
    assert stand_of({"rack": "r1", "zone": "x"}) == Stand(rack="r1")


def test_the_failure_domain_is_the_largest_part_that_is_known() -> None:
    assert Stand("r1", "s1", "d1").failure_domain == "r1"
    assert Stand("", "s1", "d1").failure_domain == "s1"
    assert NOWHERE.failure_domain == ""


def test_a_stand_is_told_in_words() -> None:
    assert str(Stand("r1", "", "d1")) == "rack r1, nvlink domain d1"
    assert str(NOWHERE) == "place unknown"


def test_blocks_stand_in_the_order_of_their_first_member() -> None:
    came = [
        member("a", 0, rack="r2", switch="s3"),
        member("b", 1, rack="r1", switch="s1"),
        member("c", 2, rack="r2", switch="s4"),
        member("d", 3, rack="r1", switch="s1"),
        member("e", 4, rack="r2", switch="s3"),
        member("f", 5),
    ]
    assert [each.node_id for each in in_blocks(reversed(came))] == ["a", "e", "c", "b", "d", "f"]


def test_without_labels_the_order_of_arrival_stands() -> None:
    came = [member("b", 0), member("a", 1)]
    assert [each.node_id for each in in_blocks(came)] == ["b", "a"]
