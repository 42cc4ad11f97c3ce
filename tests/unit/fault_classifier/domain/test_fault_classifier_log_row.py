"""Findings of logs stay inside their bounds, and what is kept does not depend on who came first."""

from __future__ import annotations

import random

from fault_classifier.domain.log_row import RANKS_MAX, ROWS_MAX, TEXT_CHARS_MAX, TEXTS_MAX, LogRow, add_rows


def row(rank: int, kind: str = "cuda_oom", role: str = "cause", *, count: int = 1, text: str = "x") -> LogRow:
    return LogRow(
        kind=kind, role=role, signature_id=f"test.{kind}", node_id="n", rank=rank, stream="stderr", ordinal=rank,
        text=text, captures={}, count=count,
    )  # fmt: skip


def test_the_same_row_again_is_the_same_object_and_a_higher_count_is_taken() -> None:
    rows = add_rows((), [row(0)])
    assert add_rows(rows, [row(0)]) is rows
    assert add_rows(rows, [row(0, count=9)])[0].count == 9
    assert add_rows(add_rows(rows, [row(0, count=9)]), [row(0, count=2)])[0].count == 9


def test_a_storm_over_ranks_is_bounded_and_a_cause_outlives_context() -> None:
    rows = add_rows((), [row(rank, "step", "context") for rank in range(1_000)])
    assert len(rows) == RANKS_MAX
    for number in range(20):
        rows = add_rows(rows, [row(rank, f"noise_{number}", "context") for rank in range(RANKS_MAX)])
    assert len(rows) == ROWS_MAX
    rows = add_rows(rows, [row(5, "cuda_oom", "cause")])
    assert rows[0].kind == "cuda_oom"
    assert len(rows) == ROWS_MAX


def test_texts_are_short_and_few() -> None:
    rows = add_rows((), [row(rank, text="y" * 10_000) for rank in range(40)])
    assert {len(each.text) for each in rows} == {TEXT_CHARS_MAX, 0}
    assert sum(bool(each.text) for each in rows) == TEXTS_MAX


def test_order_of_arrival_does_not_matter() -> None:
    new = [row(rank, f"kind_{rank % 7}", ("cause", "symptom", "victim")[rank % 3]) for rank in range(200)]
    expected = add_rows((), new)
    random.Random(4).shuffle(new)
    rows: tuple[LogRow, ...] = ()
    for each in new:
        rows = add_rows(rows, [each])
    assert rows == expected
