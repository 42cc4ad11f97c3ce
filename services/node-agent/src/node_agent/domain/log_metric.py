"""Judges one captured number: good, bad, or unknown. Unknown is no data point: it neither adds to a row nor ends it.

This runs for every line that matches a metric rule, so two things are written for speed, here and in log_state. Values
made anew for a line are NamedTuples: a frozen dataclass takes four times as long (3.0 us for seven fields). Members of
enums have names of their own: Python 3.11 takes 0.26 us to look one up in its class.
"""

from __future__ import annotations

import math
import statistics
from enum import StrEnum
from typing import NamedTuple

from node_agent.domain.log_rule import MetricCondition, NonFinite


class PointKind(StrEnum):
    """What a value says."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "unknown"


GOOD, BAD, UNKNOWN = PointKind.GOOD, PointKind.BAD, PointKind.UNKNOWN


class DataPoint(NamedTuple):
    """One judged value; `value` is None when the capture is missing or not a number."""

    kind: PointKind
    value: float | None


_MISSING = DataPoint(UNKNOWN, None)


class MetricMemory(NamedTuple):
    """What a metric rule remembers of one rank.

    Attributes:
        row: bad data points in a row, up to now.
        recent: good values for a relative threshold, oldest first.
        value: the last captured number.
        unusable: captures that were no number, or a NaN that is no condition.
    """

    row: int = 0
    recent: tuple[float, ...] = ()
    value: float | None = None
    unusable: int = 0

    def after(self, condition: MetricCondition, point: DataPoint) -> MetricMemory:
        """With one more judged value."""
        row, unusable = self.row, self.unusable
        if point.kind is GOOD:
            row = 0
        elif point.kind is BAD:
            row = min(row + 1, condition.data_points)
        else:
            unusable += 1
        recent = remembered(condition, point, self.recent)
        return MetricMemory(row, recent, point.value, unusable)


def number_of(raw: bytes | None) -> float | None:
    """The captured text as a number, as Python's float() reads it; None when it is none."""
    if raw is None:
        return None
    try:
        return float(raw)
    except ValueError:
        return None


def judge(condition: MetricCondition, raw: bytes | None, recent: tuple[float, ...]) -> DataPoint:
    """Compare one captured text with the condition; `recent` holds the good values before it, oldest first."""
    value = number_of(raw)
    if value is None:
        return _MISSING
    if math.isnan(value):
        return DataPoint(BAD if NonFinite.NAN in condition.non_finite else UNKNOWN, value)
    if math.isinf(value) and NonFinite.INF in condition.non_finite:
        return DataPoint(BAD, value)
    limit = limit_of(condition, recent)
    if condition.operator is None or limit is None:
        return DataPoint(GOOD, value)
    return DataPoint(BAD if condition.operator.holds(value, limit) else GOOD, value)


def limit_of(condition: MetricCondition, recent: tuple[float, ...]) -> float | None:
    """What values are compared with now; None while a relative threshold has too few values."""
    if condition.relative_to_median is None:
        return condition.threshold
    if len(recent) < condition.points_min:
        return None
    return condition.relative_to_median * statistics.median(recent)


def remembered(condition: MetricCondition, point: DataPoint, recent: tuple[float, ...]) -> tuple[float, ...]:
    """The window after this point; only a relative threshold keeps one, and only finite good values enter it."""
    if condition.relative_to_median is None or point.kind is not GOOD:
        return recent
    if point.value is None or not math.isfinite(point.value):
        return recent
    return (*recent, point.value)[-condition.window_points :]


def describe(condition: MetricCondition, point: DataPoint, recent: tuple[float, ...], row: int) -> str:
    """Why the rank is SLOW: `2.71 gt 2 (5 values in a row)`."""
    times = "" if row <= 1 else f" ({row} values in a row)"
    limit = limit_of(condition, recent)
    if point.value is None:
        return f"the value before was bad{times}, and this line carries none"
    if not math.isfinite(point.value) or condition.operator is None or limit is None:
        return f"the value is {point.value:g}{times}"
    basis = ""
    if condition.relative_to_median is not None:
        basis = f", {condition.relative_to_median:g} times the median of {len(recent)} good values"
    return f"{point.value:g} {condition.operator} {limit:g}{basis}{times}"
