"""Every second is booked once, and a bill never takes more than there is."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fault_contracts.accounts import CAUSES_MAX, OTHER_CAUSES, IncidentAccount
from fault_contracts.faults import Attribution
from recovery_planner.domain.books import Books, Usage, Use, accrue, charge

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
BEGUN = Books(since=NOON, at=NOON)


def after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def bill(**fields: object) -> IncidentAccount:
    known: dict[str, object] = {"ranks": 8, "ranks_after": 8, "down_s": 5.0, "down_gpu_s": 40.0}
    return IncidentAccount.model_validate({**known, **fields})


def test_books_begin_with_the_first_entry() -> None:
    books = accrue(Books(), Usage(use=Use.TRAINING, ranks=8, spare_ranks=0), NOON)
    assert (books.since, books.at, books.training_s) == (NOON, NOON, 0.0)


@pytest.mark.parametrize("use", [Use.WAITING, Use.TRAINING, Use.DOWN])
def test_time_goes_to_one_use_and_spares_are_paid_in_each(use: Use) -> None:
    books = accrue(BEGUN, Usage(use=use, ranks=8, spare_ranks=4), after(10))
    sums = {
        Use.WAITING: (books.waiting_s, books.waiting_gpu_s),
        Use.TRAINING: (books.training_s, books.training_gpu_s),
        Use.DOWN: (books.down_s, books.down_gpu_s),
    }
    assert sums.pop(use) == (10.0, 80.0)
    assert set(sums.values()) == {(0.0, 0.0)}
    assert books.spare_gpu_s == 40.0


def test_a_clock_that_went_back_and_a_job_that_is_over_book_nothing() -> None:
    training = Usage(use=Use.TRAINING, ranks=8, spare_ranks=0)
    assert accrue(BEGUN, training, after(-5)) == BEGUN
    over = accrue(BEGUN, Usage(use=Use.OVER, ranks=8, spare_ranks=8), after(50))
    assert over == replace(BEGUN, at=after(50))


def test_what_was_lost_before_it_was_known_was_no_training() -> None:
    books = charge(
        replace(BEGUN, training_s=100.0, training_gpu_s=800.0),
        bill(steps_redone=4, step_s=0.5, redone_gpu_s=16.0),
        attribution=Attribution.HARDWARE,
        cause="gpu_fell_off_bus",
        attempts=2,
        detect_s=3.0,
    )
    assert (books.undetected_s, books.undetected_gpu_s) == (3.0, 24.0)
    assert (books.redone_s, books.redone_gpu_s, books.steps_redone) == (2.0, 16.0, 4)
    [cost] = books.causes
    assert (cost.incidents, cost.attempts, cost.down_gpu_s, cost.redone_gpu_s) == (1, 2, 40.0, 16.0)
    assert books.unpriced == 0


def test_an_agent_with_a_clock_of_last_year_cannot_lose_more_than_was_trained() -> None:
    books = charge(
        replace(BEGUN, training_s=10.0, training_gpu_s=80.0),
        bill(),
        attribution=Attribution.UNKNOWN,
        cause="",
        attempts=1,
        detect_s=3e7,
    )
    assert (books.undetected_s, books.undetected_gpu_s) == (10.0, 80.0)
    assert books.unpriced == 1, "nobody told steps"


def test_one_cause_has_one_line_and_too_many_share_the_last() -> None:
    books = BEGUN
    for number in range(CAUSES_MAX + 5):
        for _ in range(2):
            books = charge(
                books, bill(), attribution=Attribution.USER, cause=f"cause_{number}", attempts=1, detect_s=0.0
            )
    assert len(books.causes) == CAUSES_MAX + 1
    assert books.causes[-1].cause == OTHER_CAUSES
    assert [each.incidents for each in books.causes] == [2] * CAUSES_MAX + [10]
    assert books.incidents == 2 * (CAUSES_MAX + 5)
