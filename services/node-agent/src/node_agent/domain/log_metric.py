"""Judges one captured number: good, bad, or unknown. Unknown is no data point: it neither adds to a row nor ends it."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from enum import StrEnum

from node_agent.domain.log_rule import MetricCondition, NonFinite


class PointKind(StrEnum):
    """What a value says."""

    GOOD = "good"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPoint:
    """One judged value; `value` is None when the capture is missing or not a number."""

    kind: PointKind
    value: float | None


_MISSING = DataPoint(kind=PointKind.UNKNOWN, value=None)


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
        is_bad = NonFinite.NAN in condition.non_finite
        return DataPoint(kind=PointKind.BAD if is_bad else PointKind.UNKNOWN, value=value)
    if NonFinite.INF in condition.non_finite and math.isinf(value):
        return DataPoint(kind=PointKind.BAD, value=value)
    limit = limit_of(condition, recent)
    if condition.operator is None or limit is None:
        return DataPoint(kind=PointKind.GOOD, value=value)
    is_bad = condition.operator.holds(value, limit)
    return DataPoint(kind=PointKind.BAD if is_bad else PointKind.GOOD, value=value)


def limit_of(condition: MetricCondition, recent: tuple[float, ...]) -> float | None:
    """What values are compared with now; None while a relative threshold has too few values."""
    if condition.relative_to_median is None:
        return condition.threshold
    if len(recent) < condition.points_min:
        return None
    return condition.relative_to_median * statistics.median(recent)


def remembered(condition: MetricCondition, point: DataPoint, recent: tuple[float, ...]) -> tuple[float, ...]:
    """The window after this point; only a relative threshold keeps one, and only finite good values enter it."""
    if condition.relative_to_median is None or point.kind is not PointKind.GOOD:
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
