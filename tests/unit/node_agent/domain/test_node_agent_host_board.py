"""What of a look goes out, what silence becomes, and what is shown."""

from __future__ import annotations

from datetime import UTC, datetime

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain import host_board
from node_agent.domain.host_board import EVENT_KEPT_S, GOOD_LOOKS_SENT, HostBoard
from node_agent.domain.observation import Observation

AT = datetime(2026, 1, 1, tzinfo=UTC)


def seen(check: str, health: Health = Health.OK, *, component_id: str = "", count: int = 1) -> Observation:
    return Observation(
        component=Component.GPU,
        component_id=component_id,
        check=check,
        health=health,
        detail="87 C",
        count=count,
        attributes={"driver_version": "570.1"} if check == "driver_version" else {},
        observed_at=AT,
    )


def test_what_stays_well_is_told_once() -> None:
    board = HostBoard()
    assert board.take("nvml", [seen("a"), seen("b")], interval_s=10, now_s=0) == (seen("a"), seen("b"))
    assert board.take("nvml", [seen("a"), seen("b")], interval_s=10, now_s=10) == ()


def test_what_is_not_well_is_told_each_time_and_some_good_looks_after_it() -> None:
    board = HostBoard()
    board.take("nvml", [seen("a")], interval_s=10, now_s=0)
    for health in (Health.BAD, Health.BAD, Health.UNKNOWN):
        assert board.take("nvml", [seen("a", health)], interval_s=10, now_s=10) == (seen("a", health),)
    told = [bool(board.take("nvml", [seen("a")], interval_s=10, now_s=20)) for _ in range(GOOD_LOOKS_SENT + 2)]
    assert told == [True] * GOOD_LOOKS_SENT + [False] * 2


def test_silence_becomes_unknown_once_and_a_new_look_ends_it() -> None:
    board = HostBoard()
    board.take("nvml", [seen("a")], interval_s=10, now_s=0)
    assert board.expire(now_s=30, at=AT) == ()
    (silent,) = board.expire(now_s=31, at=AT)
    assert silent.health is Health.UNKNOWN
    assert silent.detail == "not seen by nvml for 31 s; it was ok: 87 C"
    assert board.expire(now_s=40, at=AT) == ()
    assert board.take("nvml", [seen("a")], interval_s=10, now_s=50) == (seen("a"),)
    assert board.expire(now_s=60, at=AT) == ()


def test_the_rows_of_a_dead_collector_stay_and_those_it_no_longer_names_go() -> None:
    board = HostBoard()
    board.take("nvml", [seen("a"), seen("b")], interval_s=10, now_s=0)
    board.take("host", [seen("c")], interval_s=10, now_s=0)
    for now_s in range(10, 1_000, 10):
        board.take("nvml", [seen("a")], interval_s=10, now_s=now_s)
        board.expire(now_s=now_s, at=AT)
    assert [row.observation.check for row in board.table()] == ["c", "a"]


def test_events_are_folded_shown_for_a_while_and_never_in_the_whole_table() -> None:
    board = HostBoard()
    board.happened("kmsg", seen("xid_31", Health.BAD, count=3), now_s=0)
    board.happened("kmsg", seen("xid_31", Health.BAD, count=4), now_s=5)
    (row,) = board.table()
    assert (row.event, row.observation.count, row.seen_s) == (True, 7, 5)
    assert board.whole() == ()
    board.expire(now_s=5 + EVENT_KEPT_S, at=AT)
    assert len(board.table()) == 1
    board.expire(now_s=6 + EVENT_KEPT_S, at=AT)
    assert board.table() == ()


def test_of_too_many_events_the_quietest_goes() -> None:
    board = HostBoard()
    for number in range(host_board.EVENTS_MAX):
        board.happened("kmsg", seen(f"e{number}", Health.BAD), now_s=number)
    board.happened("kmsg", seen("e0", Health.BAD), now_s=1_000)
    board.happened("kmsg", seen("late", Health.BAD), now_s=1_001)
    checks = {row.observation.check for row in board.table()}
    assert "e1" not in checks
    assert {"e0", "late"} <= checks


def test_too_many_rows_are_counted() -> None:
    board = HostBoard()
    looks = [seen("a", component_id=str(number)) for number in range(host_board.ROWS_MAX + 2)]
    board.take("nvml", looks, interval_s=10, now_s=0)
    assert (len(board.whole()), board.left_out) == (host_board.ROWS_MAX, 2)


def test_the_worst_comes_first() -> None:
    board = HostBoard()
    board.take("x", [seen("a"), seen("b", Health.UNKNOWN), seen("c", Health.BAD)], interval_s=10, now_s=0)
    assert [row.observation.check for row in board.table()] == ["c", "b", "a"]


def test_an_attribute_of_the_machine_is_found_by_its_check() -> None:
    board = HostBoard()
    assert board.value("driver_version", "driver_version") == ""
    board.take("nvml", [seen("a"), seen("driver_version")], interval_s=10, now_s=0)
    assert board.value("driver_version", "driver_version") == "570.1"
