"""What a rule accepts of its author, and whom and what it looks at."""

import math
from typing import Any

import pytest

from node_agent.domain.log_rule import (
    ExpectedFrom,
    LogRule,
    MetricCondition,
    Operator,
    RankSelector,
    RuleAction,
    RuleKind,
)
from training_topology.identity import LocalRank, Rank


def rule(**fields: Any) -> LogRule:
    return LogRule(**{"name": "r", "pattern": "x", "kind": RuleKind.HANG, "action": RuleAction.ALERT, **fields})


def metric(**fields: Any) -> LogRule:
    return rule(kind=RuleKind.METRIC, metric=MetricCondition(**fields))


@pytest.mark.parametrize(
    ("operator", "below", "equal", "above"),
    [
        (Operator.GT, False, False, True),
        (Operator.LT, True, False, False),
        (Operator.EQ, False, True, False),
        (Operator.GTEQ, False, True, True),
        (Operator.LTEQ, True, True, False),
    ],
)
def test_each_operator_compares_value_with_threshold(operator: Operator, below: bool, equal: bool, above: bool) -> None:
    assert [operator.holds(value, 2.5) for value in (2.4, 2.5, 2.6)] == [below, equal, above]


def test_every_operator_is_tested_above() -> None:
    assert {*Operator} == {Operator.GT, Operator.LT, Operator.EQ, Operator.GTEQ, Operator.LTEQ}


def test_a_sound_rule_has_no_problems() -> None:
    assert rule(start_cut_off_s=1.0, recurring_s=0.5).problems() == ()
    assert metric(operator=Operator.GT, threshold=2.0).problems() == ()
    assert metric(non_finite=frozenset({"nan"})).problems() == ()


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (rule(name=""), "name must be"),
        (rule(name="a\nb"), "printable"),
        (rule(name="n" * 129), "128"),
        (rule(pattern=""), "logPattern is empty"),
        (rule(streams=frozenset()), "no stream"),
        (rule(start_cut_off_s=0.0), "expectedStartCutOffInSeconds must be greater than 0"),
        (rule(recurring_s=-1.0), "expectedRecurringFrequencyInSeconds must be greater than 0"),
        (rule(recurring_s=1e9), "at most 2592000"),
        (rule(cooldown_s=-1.0), "cooldownInSeconds"),
        (rule(kind=RuleKind.METRIC), "a metric rule needs"),
        (rule(kind=RuleKind.FAULT), "contradicts"),
        (metric(operator=Operator.GT), "go together"),
        (metric(threshold=1.0), "go together"),
        (metric(operator=Operator.GT, threshold=1.0, relative_to_median=0.5), "one is enough"),
        (metric(operator=Operator.GT, threshold=math.nan), "nonFinite"),
        (metric(operator=Operator.GT, relative_to_median=0.0), "relativeThreshold"),
        (metric(operator=Operator.GT, threshold=1.0, data_points=0), "metricEvaluationDataPoints"),
        (metric(operator=Operator.GT, relative_to_median=0.5, window_points=0), "relativeWindowPoints"),
        (metric(operator=Operator.GT, relative_to_median=0.5, points_min=51), "relativeMinPoints"),
        (rule(kind=RuleKind.PROGRESS, metric=MetricCondition(non_finite=frozenset({"nan"}))), "compares nothing"),
    ],
)
def test_what_is_wrong_is_said(bad: LogRule, said: str) -> None:
    assert [problem for problem in bad.problems() if said in problem], bad.problems()


def test_a_selector_asks_for_both_rank_and_local_rank() -> None:
    selector = RankSelector(ranks=(range(8), range(16, 17)), local_ranks=(range(1),))
    assert selector.selects(Rank(0), LocalRank(0))
    assert selector.selects(Rank(16), LocalRank(0))
    assert not selector.selects(Rank(8), LocalRank(0))
    assert not selector.selects(Rank(1), LocalRank(1))
    assert RankSelector().selects(Rank(999), LocalRank(7))


def test_a_start_that_any_rank_can_meet_is_judged_on_the_node_and_the_gaps_on_each_rank() -> None:
    both = rule(start_cut_off_s=60.0, recurring_s=10.0)
    node = both.for_node()
    assert node is not None
    assert (node.start_cut_off_s, node.recurring_s) == (60.0, None)
    assert (both.for_rank().start_cut_off_s, both.for_rank().recurring_s) == (None, 10.0)


def test_a_start_that_each_rank_must_meet_is_judged_on_each_rank() -> None:
    each = rule(start_cut_off_s=60.0, expected_from=ExpectedFrom.EACH)
    assert each.for_node() is None
    assert each.for_rank().start_cut_off_s == 60.0


def test_a_rank_that_was_running_before_the_rule_is_not_asked_for_its_start() -> None:
    each = rule(start_cut_off_s=60.0, recurring_s=10.0, expected_from=ExpectedFrom.EACH)
    late = each.for_rank(is_late=True)
    assert (late.start_cut_off_s, late.recurring_s) == (None, 10.0)
