"""One rule as written in YAML, into a domain rule: types, defaults, and a reason for each thing that is wrong.

Two dialects share the field names. HyperPod's rules act as there (action `fault`, unknown fields are ignored with a
notice); ours say what follows (`action`, default `alert`) and a field that is not known is an error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from fault_attribution.matching.pattern import PatternRefused, compile_pattern
from node_agent.adapters.log_engine import capture_groups
from node_agent.domain.log_rule import (
    CAPTURING_KINDS,
    ExpectedFrom,
    LogRule,
    LogStream,
    MatchMode,
    MetricCondition,
    NonFinite,
    Operator,
    RankSelector,
    RuleAction,
    RuleKind,
)

RANGES_MAX = 256
RANK_MAX = 1_000_000
FIELDS = frozenset({
    "name", "description", "logPattern", "kind", "action", "mode", "streams", "ranks", "localRanks",
    "expectedStartCutOffInSeconds", "expectedFrom", "expectedRecurringFrequencyInSeconds", "stopPattern",
    "metricThreshold", "relativeThreshold", "relativeWindowPoints", "relativeMinPoints", "nonFinite", "operator",
    "metricEvaluationDataPoints", "faultOnMatch", "cooldownInSeconds", "checkpointKind",
})  # fmt: skip

_Choice = TypeVar("_Choice", bound=StrEnum)
_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")


class Dialect(StrEnum):
    """How a rule is written."""

    HYPERPOD = "hyperpod"
    OURS = "ours"


class FieldRefused(Exception):
    """A field that cannot be used; the message names it."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name


@dataclass(slots=True, kw_only=True)
class RuleReading:
    """A rule, what was wrong with it as (field, reason), and what its author should know."""

    rule: LogRule | None = None
    problems: list[tuple[str, str]] = field(default_factory=list)
    notices: list[tuple[str, str]] = field(default_factory=list)


def read_rule(values: Mapping[str, Any], dialect: Dialect) -> RuleReading:
    """Make a rule of the fields of one mapping."""
    reading = RuleReading()
    values = {name: value for name, value in values.items() if value is not None}
    for name in values.keys() - FIELDS:
        told = reading.problems if dialect is Dialect.OURS else reading.notices
        told.append((name, f"unknown field {name}"))
    try:
        rule = _rule_of(values, dialect, reading)
    except FieldRefused as refused:
        reading.problems.append((refused.name, f"{refused.name} {refused}"))
        return reading
    reading.problems += [("", problem) for problem in rule.problems()]
    if not reading.problems:
        _check_patterns(rule, dialect, reading)
    if not reading.problems:
        reading.rule = rule
    return reading


def _rule_of(values: Mapping[str, Any], dialect: Dialect, reading: RuleReading) -> LogRule:
    for needed in ("name", "logPattern"):
        if needed not in values:
            raise FieldRefused(needed, "is missing")
    metric = _metric_of(values, dialect, reading)
    fault_on_match = _flag(values, "faultOnMatch")
    cut_off_s = _number(values, "expectedStartCutOffInSeconds")
    recurring_s = _number(values, "expectedRecurringFrequencyInSeconds")
    kind = _choice(values, "kind", RuleKind) or _kind_of(fault_on_match, metric, cut_off_s, recurring_s)
    if kind is None and dialect is Dialect.OURS:
        raise FieldRefused("kind", f"is missing, and nothing in the rule tells it: {_list(RuleKind)}")
    if kind is None:
        reading.notices.append(("", "the rule judges nothing: it has no timer, no threshold and no faultOnMatch"))
    if kind is RuleKind.HANG and cut_off_s is None and recurring_s is None:
        wanted = "expectedStartCutOffInSeconds or expectedRecurringFrequencyInSeconds"
        reading.problems.append(("kind", f"a hang rule needs {wanted}"))
    default = RuleAction.FAULT if dialect is Dialect.HYPERPOD else RuleAction.ALERT
    return LogRule(
        name=_text(values, "name") or "",
        pattern=_text(values, "logPattern") or "",
        kind=kind or RuleKind.HANG,
        action=_choice(values, "action", RuleAction) or default,
        mode=_choice(values, "mode", MatchMode) or MatchMode.MATCH,
        streams=frozenset(_choices(values, "streams", LogStream) or LogStream),
        selector=RankSelector(ranks=_ranges(values, "ranks"), local_ranks=_ranges(values, "localRanks")),
        start_cut_off_s=cut_off_s,
        expected_from=_choice(values, "expectedFrom", ExpectedFrom) or ExpectedFrom.ANY,
        recurring_s=recurring_s,
        stop_pattern=_text(values, "stopPattern"),
        metric=metric,
        fault_on_match=fault_on_match or (kind is RuleKind.FAULT and "faultOnMatch" not in values),
        cooldown_s=_number(values, "cooldownInSeconds") or 0.0,
        checkpoint_kind=_checkpoint_kind(values),
    )


def _metric_of(values: Mapping[str, Any], dialect: Dialect, reading: RuleReading) -> MetricCondition | None:
    threshold = _number(values, "metricThreshold")
    relative = _number(values, "relativeThreshold")
    operator = _choice(values, "operator", Operator)
    non_finite = frozenset(_choices(values, "nonFinite", NonFinite))
    data_points = _count(values, "metricEvaluationDataPoints", default=1)
    window = _count(values, "relativeWindowPoints", default=50)
    points_min = _count(values, "relativeMinPoints", default=min(10, window))
    is_half = (threshold is None) != (operator is None) and relative is None and not non_finite
    if dialect is Dialect.HYPERPOD and is_half:
        reading.notices.append(("operator", "metricThreshold and operator go together; the metric is not judged"))
        return None
    if threshold is None and relative is None and operator is None and not non_finite:
        return None
    return MetricCondition(
        operator=operator,
        threshold=threshold,
        relative_to_median=relative,
        window_points=window,
        points_min=points_min,
        non_finite=non_finite,
        data_points=data_points,
    )


def _kind_of(
    fault_on_match: bool, metric: MetricCondition | None, cut_off_s: float | None, recurring_s: float | None
) -> RuleKind | None:
    """What a rule without `kind` is for, from what it contains."""
    if fault_on_match:
        return RuleKind.FAULT
    if metric is not None:
        return RuleKind.METRIC
    return RuleKind.HANG if cut_off_s is not None or recurring_s is not None else None


def _check_patterns(rule: LogRule, dialect: Dialect, reading: RuleReading) -> None:
    for name, pattern in (("logPattern", rule.pattern), ("stopPattern", rule.stop_pattern)):
        if pattern is None:
            continue
        try:
            compiled = compile_pattern(pattern)
        except PatternRefused as refused:
            reading.problems.append((name, f"{name}: {refused}"))
            continue
        if name == "logPattern":
            for problem in _capture_problems(rule, compiled):
                told = reading.notices if dialect is Dialect.HYPERPOD else reading.problems
                told.append((name, problem))


def _capture_problems(rule: LogRule, compiled: Any) -> Iterator[str]:
    value_group, _ = capture_groups(rule, compiled)
    if rule.metric is not None and compiled.groups == 0:
        yield "logPattern captures no metric; put its number in parentheses"
    if rule.kind in CAPTURING_KINDS and value_group == 0:
        yield "logPattern captures no step; put its number in (?P<step>...)"


# ---------------------------------------------------------------------------------------------------- values


def _text(values: Mapping[str, Any], name: str) -> str | None:
    value = values.get(name)
    if value is not None and not isinstance(value, str):
        raise FieldRefused(name, f"must be text, not {_shown(value)}; quote it")
    return value


def _flag(values: Mapping[str, Any], name: str) -> bool:
    value = values.get(name, False)
    if not isinstance(value, bool):
        raise FieldRefused(name, f"must be true or false, not {_shown(value)}")
    return value


def _number(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    if isinstance(value, str):  # HyperPod takes "300" as well as 300
        value = _parsed(value)
    if value is None and name not in values:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldRefused(name, f"must be a number, not {_shown(values[name])}")
    number = float(value) if abs(value) < 1e300 or isinstance(value, float) else math.inf
    if not math.isfinite(number):
        raise FieldRefused(name, f"must be a finite number, not {_shown(values[name])}")
    return number


def _parsed(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _count(values: Mapping[str, Any], name: str, *, default: int) -> int:
    number = _number(values, name)
    if number is None:
        return default
    if number != int(number):
        raise FieldRefused(name, f"must be a whole number, not {_shown(values[name])}")
    return int(number)


def _choice(values: Mapping[str, Any], name: str, choices: type[_Choice]) -> _Choice | None:
    return None if name not in values else _one_of(values[name], name, choices)


def _choices(values: Mapping[str, Any], name: str, choices: type[_Choice]) -> list[_Choice]:
    if name not in values:
        return []
    value = values[name]
    return [_one_of(each, name, choices) for each in (value if isinstance(value, list) else [value])]


def _one_of(value: Any, name: str, choices: type[_Choice]) -> _Choice:
    # YAML reads `.nan` and `.inf` as numbers; whoever lists them means the same as `nan` and `inf`.
    word = str(abs(value)) if isinstance(value, float) and not math.isfinite(value) else value
    by_value: Callable[[Any], _Choice] = choices
    try:
        return by_value(word)
    except ValueError as error:
        raise FieldRefused(name, f"must be one of {_list(choices)}, not {_shown(value)}") from error


def _ranges(values: Mapping[str, Any], name: str) -> tuple[range, ...] | None:
    """`3`, `[0, 8, 16]`, `0-7` or `0-7, 16`; `all` or nothing is every rank."""
    if name not in values or values[name] == "all":
        return None
    value = values[name]
    parts = [part for each in (value if isinstance(value, list) else [value]) for part in str(each).split(",")]
    if not parts or len(parts) > RANGES_MAX:
        raise FieldRefused(name, f"must name 1 to {RANGES_MAX} ranks or ranges")
    return tuple(_range(part.strip(), name) for part in parts)


def _range(part: str, name: str) -> range:
    parsed = _RANGE.fullmatch(part)
    if parsed is None or int(parsed[2] or parsed[1]) > RANK_MAX:
        raise FieldRefused(name, f"must be ranks like 3 or ranges like 0-7, not {_shown(part)}")
    first, last = int(parsed[1]), int(parsed[2] or parsed[1])
    if last < first:
        raise FieldRefused(name, f"has the range {part}, which ends before it begins")
    return range(first, last + 1)


def _checkpoint_kind(values: Mapping[str, Any]) -> str:
    kind = _text(values, "checkpointKind") or "model"
    if kind not in ("model", "data"):
        raise FieldRefused("checkpointKind", f"must be model or data, not {_shown(kind)}")
    return kind


def _list(choices: type[StrEnum]) -> str:
    return ", ".join(choices)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
