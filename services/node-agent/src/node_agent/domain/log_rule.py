"""One log rule as a value: which lines it looks at, what it expects of them, and what follows when that is not so.

A rule has up to four parts, and a HyperPod rule may have them all: it can fault on a match, watch a number (metric),
expect a line in time (start cut-off, recurrence), and retire on a stop pattern. `kind` says what a rule is mainly for.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from training_topology.identity import LocalRank, Rank

NAME_LENGTH_MAX = 128
"""It becomes part of a reason (`LogHang_<name>`), which the contracts bound."""
PERIOD_S_MAX = 30 * 86_400.0
"""A month: a longer expectation is a typing error."""
DATA_POINTS_MAX = 10_000
WINDOW_POINTS_MAX = 1_000
"""Values kept per rank for the median: 1,000 floats are sorted in 50 us, once a line that carries the metric."""


class RuleKind(StrEnum):
    """What a rule is mainly for."""

    METRIC = "metric"
    """A captured number is compared; bad values make the rank SLOW."""
    HANG = "hang"
    """A line is expected in time; its absence makes the rank HANGING."""
    FAULT = "fault"
    """The line itself is the fault."""
    CHECKPOINT = "checkpoint"
    """The line says that a checkpoint is saved: its step and path are captured."""
    PROGRESS = "progress"
    """The line says that a step is done: its number is captured."""


CAPTURING_KINDS = frozenset({RuleKind.CHECKPOINT, RuleKind.PROGRESS})


class RuleAction(StrEnum):
    """What follows from SLOW, HANGING or FAULTED, from nothing to a restart."""

    OBSERVE = "observe"
    ALERT = "alert"
    FAULT = "fault"


ACTIONS_BY_WEIGHT = (RuleAction.OBSERVE, RuleAction.ALERT, RuleAction.FAULT)


class LogStream(StrEnum):
    """The two streams of a rank."""

    STDOUT = "stdout"
    STDERR = "stderr"


class MatchMode(StrEnum):
    """Where in a line a pattern may match."""

    MATCH = "match"
    """From the line's first byte (HyperPod)."""
    SEARCH = "search"
    """Anywhere."""


class Operator(StrEnum):
    """Value OPERATOR threshold: true makes a bad data point. HyperPod's five words."""

    GT = "gt"
    LT = "lt"
    EQ = "eq"
    GTEQ = "gteq"
    LTEQ = "lteq"

    def holds(self, value: float, threshold: float) -> bool:
        """Value OPERATOR threshold."""
        return _COMPARISONS[self](value, threshold)


_COMPARISONS: Mapping[Operator, Callable[[float, float], bool]] = {
    Operator.GT: operator.gt,
    Operator.LT: operator.lt,
    Operator.EQ: operator.eq,
    Operator.GTEQ: operator.ge,
    Operator.LTEQ: operator.le,
}


class NonFinite(StrEnum):
    """Values that are conditions of their own."""

    NAN = "nan"
    INF = "inf"
    """Either sign."""


class ExpectedFrom(StrEnum):
    """Who has to print a line before the start cut-off."""

    ANY = "any"
    """One of the selected ranks of this node: most lines are printed by one rank only."""
    EACH = "each"
    """Every selected rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSelector:
    """Ranks a rule looks at, as ranges; None is no restriction. Both given: a rank must be in both."""

    ranks: tuple[range, ...] | None = None
    local_ranks: tuple[range, ...] | None = None

    def selects(self, rank: Rank, local_rank: LocalRank) -> bool:
        """Whether this rank is looked at."""
        return all(
            ranges is None or any(number in span for span in ranges)
            for number, ranges in ((rank, self.ranks), (local_rank, self.local_ranks))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricCondition:
    """When a captured number is a bad data point, and how many in a row make the rank SLOW.

    Attributes:
        operator: with `threshold` or `relative_to_median`; None when only non-finite values are looked for.
        threshold: absolute.
        relative_to_median: the threshold is this factor times the median of the rule's own recent good values on the
            same rank. Bad values stay out of the median, so a sick rank cannot teach that sick is normal.
        window_points: how many recent good values.
        points_min: fewer good values than this, and a relative threshold judges nothing yet.
        non_finite: values that are bad by themselves. A NaN that is not listed is no data point at all (it compares
            with nothing); an infinity that is not listed compares like any number.
        data_points: bad points in a row.
    """

    operator: Operator | None = None
    threshold: float | None = None
    relative_to_median: float | None = None
    window_points: int = 50
    points_min: int = 10
    non_finite: frozenset[NonFinite] = frozenset()
    data_points: int = 1

    def problems(self) -> Iterator[str]:
        """What is wrong with it, as sentences for the author of the rule file."""
        if self.threshold is not None and self.relative_to_median is not None:
            yield "metricThreshold and relativeThreshold are both given; one is enough"
        has_limit = self.threshold is not None or self.relative_to_median is not None
        if has_limit != (self.operator is not None):
            yield "a threshold and an operator go together (gt, lt, eq, gteq or lteq)"
        if self.threshold is not None and not math.isfinite(self.threshold):
            yield "metricThreshold must be a finite number; NaN and infinity are written nonFinite: [nan, inf]"
        if self.relative_to_median is not None and not 0 < self.relative_to_median < math.inf:
            yield "relativeThreshold must be a number greater than 0, for example 0.8 for 80 % of the median"
        if not 1 <= self.data_points <= DATA_POINTS_MAX:
            yield f"metricEvaluationDataPoints must be 1 to {DATA_POINTS_MAX}"
        if not 1 <= self.window_points <= WINDOW_POINTS_MAX:
            yield f"relativeWindowPoints must be 1 to {WINDOW_POINTS_MAX}"
        if not 1 <= self.points_min <= self.window_points:
            yield "relativeMinPoints must be 1 to relativeWindowPoints"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRule:
    """One rule.

    Attributes:
        name: unique in its file; part of every reason.
        pattern: regular expression in RE2's syntax; a metric is its group 1, a step and a path are the groups named so.
        start_cut_off_s: the first matching line must come within this time of the start.
        recurring_s: longest allowed gap between two matching lines of one rank, once there was a first.
        stop_pattern: a line that retires the rule on its rank, for good.
        cooldown_s: after a report on a rank, none follows from this rule on this rank for so long; 0 is no limit.
        checkpoint_kind: `model` or `data`; read on checkpoint rules only.
    """

    name: str
    pattern: str
    kind: RuleKind
    action: RuleAction
    mode: MatchMode = MatchMode.MATCH
    streams: frozenset[LogStream] = frozenset(LogStream)
    selector: RankSelector = RankSelector()
    start_cut_off_s: float | None = None
    expected_from: ExpectedFrom = ExpectedFrom.ANY
    recurring_s: float | None = None
    stop_pattern: str | None = None
    metric: MetricCondition | None = None
    fault_on_match: bool = False
    cooldown_s: float = 0.0
    checkpoint_kind: str = "model"

    @property
    def has_line_timers(self) -> bool:
        """Whether a line can set a deadline: for the next line, or for a report that a cool-down holds back."""
        return self.recurring_s is not None or self.cooldown_s > 0

    def for_rank(self, *, is_late: bool = False) -> LogRule:
        """What is judged on each rank by itself.

        Args:
            is_late: the rank was running already when the rule came: a line of its start may be long past, so its
                absence says nothing.
        """
        if is_late or self.expected_from is ExpectedFrom.ANY:
            return replace(self, start_cut_off_s=None)
        return self

    def for_node(self) -> LogRule | None:
        """What is judged over all ranks of the node: whether any of them printed the line in time."""
        if self.start_cut_off_s is None or self.expected_from is ExpectedFrom.EACH:
            return None
        return replace(self, recurring_s=None, metric=None, fault_on_match=False, stop_pattern=None)

    def problems(self) -> tuple[str, ...]:
        """What is wrong with the rule as sentences; empty when it can be used."""
        return tuple(self._problems())

    def _problems(self) -> Iterator[str]:
        if not self.name or len(self.name) > NAME_LENGTH_MAX or not self.name.isprintable():
            yield f"name must be 1 to {NAME_LENGTH_MAX} printable characters"
        if not self.pattern:
            yield "logPattern is empty; it would match every line"
        if not self.streams:
            yield "streams names no stream"
        for field, value in (
            ("expectedStartCutOffInSeconds", self.start_cut_off_s),
            ("expectedRecurringFrequencyInSeconds", self.recurring_s),
        ):
            if value is not None and not 0 < value <= PERIOD_S_MAX:
                yield f"{field} must be greater than 0 and at most {PERIOD_S_MAX:.0f}"
        if not 0 <= self.cooldown_s <= PERIOD_S_MAX:
            yield f"cooldownInSeconds must be 0 to {PERIOD_S_MAX:.0f}"
        if self.kind is RuleKind.METRIC and self.metric is None:
            yield "a metric rule needs metricThreshold, relativeThreshold or nonFinite"
        if self.kind is RuleKind.FAULT and not self.fault_on_match:
            yield "a fault rule faults on a match; faultOnMatch: false contradicts its kind"
        if self.metric is not None:
            if self.kind in CAPTURING_KINDS:
                yield f"a {self.kind} rule captures a step and compares nothing; write a metric rule beside it"
            yield from self.metric.problems()
