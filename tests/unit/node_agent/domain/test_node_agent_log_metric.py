"""Numbers in log lines: what is a bad data point, and what is none at all."""

import math

import pytest

from node_agent.domain.log_metric import (
    DataPoint,
    MetricMemory,
    PointKind,
    describe,
    judge,
    limit_of,
    number_of,
    remembered,
)
from node_agent.domain.log_rule import MetricCondition, NonFinite, Operator

ABOVE_2 = MetricCondition(operator=Operator.GT, threshold=2.0)
NAN_IS_BAD = MetricCondition(non_finite=frozenset({NonFinite.NAN, NonFinite.INF}))
HALF = MetricCondition(operator=Operator.LT, relative_to_median=0.5, window_points=5, points_min=3)


@pytest.mark.parametrize(
    ("raw", "number"),
    [
        (b"2.71", 2.71),
        (b" 1e-3 ", 0.001),
        (b"-7", -7.0),
        (b"1_000", 1000.0),
        (b"inf", math.inf),
        (b"-Infinity", -math.inf),
    ],
)
def test_numbers_are_read_as_python_reads_them(raw: bytes, number: float) -> None:
    assert number_of(raw) == number


@pytest.mark.parametrize("raw", [None, b"", b"1,234", b"n/a", b"2.3.4", b"\xff\xfe", b"1\x002", b"9" * 5 + b"x"])
def test_what_is_no_number_is_no_data_point(raw: bytes | None) -> None:
    assert judge(ABOVE_2, raw, ()) == DataPoint(PointKind.UNKNOWN, None)


def test_a_threshold_keeps_its_fraction() -> None:
    tiny = MetricCondition(operator=Operator.GT, threshold=0.001)
    assert judge(tiny, b"0.0005", ()).kind is PointKind.GOOD
    assert judge(tiny, b"0.0015", ()).kind is PointKind.BAD


def test_nan_is_a_condition_when_listed_and_no_data_point_when_not() -> None:
    assert judge(NAN_IS_BAD, b"nan", ()).kind is PointKind.BAD
    assert judge(NAN_IS_BAD, b"2.0", ()).kind is PointKind.GOOD
    assert judge(ABOVE_2, b"NaN", ()).kind is PointKind.UNKNOWN


def test_infinity_compares_like_a_number_unless_it_is_listed() -> None:
    assert judge(ABOVE_2, b"inf", ()).kind is PointKind.BAD
    assert judge(ABOVE_2, b"-inf", ()).kind is PointKind.GOOD
    assert judge(NAN_IS_BAD, b"-inf", ()).kind is PointKind.BAD


def test_a_relative_threshold_waits_for_enough_values() -> None:
    assert limit_of(HALF, (100.0, 100.0)) is None
    assert judge(HALF, b"1", (100.0, 100.0)).kind is PointKind.GOOD
    assert limit_of(HALF, (90.0, 100.0, 400.0)) == 50.0
    assert judge(HALF, b"49", (90.0, 100.0, 400.0)).kind is PointKind.BAD
    assert judge(HALF, b"51", (90.0, 100.0, 400.0)).kind is PointKind.GOOD


def test_bad_and_infinite_values_do_not_move_the_median() -> None:
    good = DataPoint(PointKind.GOOD, 5.0)
    assert remembered(HALF, good, (1.0, 2.0, 3.0, 4.0, 4.5)) == (2.0, 3.0, 4.0, 4.5, 5.0)
    assert remembered(HALF, DataPoint(PointKind.BAD, 0.1), (1.0,)) == (1.0,)
    assert remembered(HALF, DataPoint(PointKind.GOOD, math.inf), (1.0,)) == (1.0,)
    assert remembered(ABOVE_2, good, ()) == ()


def test_a_row_counts_bad_values_is_ended_by_a_good_one_and_outlives_an_unknown_one() -> None:
    condition = MetricCondition(operator=Operator.GT, threshold=2.0, data_points=3)
    memory = MetricMemory()
    rows = []
    for raw in (b"3", b"3", b"n/a", b"nan", b"3", b"3", b"1", b"3"):
        memory = memory.after(condition, judge(condition, raw, memory.recent))
        rows.append(memory.row)
    assert rows == [1, 2, 2, 2, 3, 3, 0, 1]
    assert memory.unusable == 2
    assert memory.value == 3.0


def test_the_sentence_shows_value_limit_and_row() -> None:
    assert describe(ABOVE_2, DataPoint(PointKind.BAD, 2.71), (), 5) == "2.71 gt 2 (5 values in a row)"
    assert "nan" in describe(NAN_IS_BAD, DataPoint(PointKind.BAD, math.nan), (), 1)
    relative = describe(HALF, DataPoint(PointKind.BAD, 40.0), (100.0, 100.0, 100.0), 1)
    assert relative == "40 lt 50, 0.5 times the median of 3 good values"
