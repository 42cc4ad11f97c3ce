"""What a record has taken in: every message once, whatever the order, in few numbers."""

from __future__ import annotations

import random

import pytest

from health_ingest.domain.applied import RUNS_MAX, Applied, Place, joined_runs, runs_around


def at(sequence: int, life: str = "a") -> Place:
    return Place(life=life, sequence=sequence)


def test_nothing_was_taken_in_at_first() -> None:
    assert not Applied().has(at(1))


def test_a_message_is_known_by_its_sequence() -> None:
    applied = Applied().with_runs("a", [(5, 7)], 0)
    assert applied is not None
    assert [applied.has(at(n)) for n in (4, 5, 6, 7, 8)] == [False, True, True, True, False]


def test_everything_up_to_the_floor_is_known_and_takes_no_room() -> None:
    applied = Applied().with_runs("a", [(2, 3), (9, 9)], 8)
    assert applied == Applied(life="a", floor=8, runs=((9, 9),))
    assert applied.has(at(1))


def test_a_floor_does_not_go_back_when_the_server_forgets() -> None:
    applied = Applied(life="a", floor=8).with_runs("a", [(9, 9)], 3)
    assert applied is not None
    assert applied.has(at(8))


def test_a_stream_that_was_made_anew_counts_from_one_again() -> None:
    old = Applied(life="a", floor=1_000)
    assert not old.has(at(5, "b"))
    new = old.with_runs("b", [(5, 5)], 0)
    assert new is not None
    assert [new.has(at(n, "b")) for n in (4, 5, 6)] == [False, True, False]


def test_too_many_holes_are_said_and_not_guessed() -> None:
    many = [(n * 2, n * 2) for n in range(1, RUNS_MAX + 2)]
    assert Applied().with_runs("a", many, 0) is None
    assert Applied().with_runs("a", many, 2) is not None


@pytest.mark.parametrize("seed", range(20))
def test_any_order_and_any_repetition_counts_each_message_once(seed: int) -> None:
    rng = random.Random(seed)
    applied, counted, settled = Applied(), [], 0
    todo = list(range(1, 400)) * 3
    rng.shuffle(todo)
    while todo:
        batch = sorted({todo.pop() for _ in range(min(len(todo), rng.randint(1, 40)))})
        mine = [n for n in batch if n % 3 == 0]
        fresh = [n for n in mine if not applied.has(at(n))]
        counted += fresh
        whole = joined_runs((n, n) for n in batch)
        grown = applied.with_runs("a", runs_around(mine, whole), settled)
        assert grown is not None
        applied = grown
        while settled < 399 and ((settled + 1) % 3 or (settled + 1) in counted):
            settled += 1
    assert sorted(counted) == [n for n in range(1, 400) if n % 3 == 0]


def test_only_the_runs_that_hold_a_message_of_the_entity_are_kept() -> None:
    assert runs_around([5, 6, 20], [(1, 3), (5, 9), (20, 20), (30, 31)]) == ((5, 9), (20, 20))
