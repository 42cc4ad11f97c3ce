"""Two clean rounds, each of looks that are younger than its beginning."""

from datetime import UTC, datetime, timedelta

from fault_contracts.payload import Health
from node_agent.domain.validation_rounds import FreshRounds, RoundsEnd, SeenCheck, look

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Seconds after the beginning."""
    return T0 + timedelta(seconds=seconds)


def row(name: str, seen: float, health: Health = Health.OK) -> SeenCheck:
    """A row of the table."""
    return SeenCheck(name=name, health=health, seen_at=at(seen))


def test_two_rounds_of_new_looks_are_clean() -> None:
    state = look(FreshRounds(began_at=T0), [row("disk", 1), row("nic", 2)], now=at(3))
    assert (state.end, state.done) == (RoundsEnd.WAITING, 1)
    state = look(state, [row("disk", 4), row("nic", 5)], now=at(6))
    assert (state.end, state.done) == (RoundsEnd.CLEAN, 2)


def test_old_looks_prove_nothing() -> None:
    state = look(FreshRounds(began_at=T0), [row("disk", -1), row("nic", 2)], now=at(3))
    assert (state.end, state.done) == (RoundsEnd.WAITING, 0)
    assert "disk" in state.sentence


def test_the_same_look_does_not_count_for_two_rounds() -> None:
    rows = [row("disk", 1), row("nic", 2)]
    state = look(FreshRounds(began_at=T0), rows, now=at(3))
    assert look(state, rows, now=at(4)).done == 1


def test_a_fresh_bad_row_ends_it_in_either_round() -> None:
    assert look(FreshRounds(began_at=T0), [row("disk", 1, Health.BAD), row("nic", -1)], now=at(3)).end is RoundsEnd.BAD
    state = look(FreshRounds(began_at=T0), [row("disk", 1)], now=at(2))
    ended = look(state, [row("disk", 3, Health.BAD)], now=at(4))
    assert ended.end is RoundsEnd.BAD
    assert "round 2" in ended.sentence


def test_an_old_bad_row_is_looked_at_again_first() -> None:
    assert look(FreshRounds(began_at=T0), [row("disk", -1, Health.BAD)], now=at(3)).end is RoundsEnd.WAITING


def test_unknown_is_not_clean() -> None:
    assert look(FreshRounds(began_at=T0), [row("disk", 1, Health.UNKNOWN)], now=at(2)).end is RoundsEnd.UNKNOWN


def test_an_agent_that_watches_nothing_knows_nothing() -> None:
    assert look(FreshRounds(began_at=T0), [], now=at(2)).end is RoundsEnd.UNKNOWN


def test_an_event_is_not_waited_for_but_a_new_bad_one_counts() -> None:
    happened = SeenCheck(name="xid_79", health=Health.BAD, seen_at=at(-60), renewed=False)
    state = look(FreshRounds(began_at=T0), [row("disk", 1), happened], now=at(2))
    assert state.done == 1
    happens = SeenCheck(name="xid_79", health=Health.BAD, seen_at=at(3), renewed=False)
    assert look(state, [row("disk", 4), happens], now=at(5)).end is RoundsEnd.BAD
