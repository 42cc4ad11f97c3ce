"""Stories of one rule on one rank, told in lines and seconds."""

from typing import Any

import pytest

from node_agent.domain.log_rule import LogRule, MetricCondition, NonFinite, Operator, RuleAction, RuleKind
from node_agent.domain.log_state import (
    BAD_STATES,
    TRANSITIONS,
    LineSeen,
    LogState,
    LogVerdict,
    RuleState,
    TimePassed,
    combine,
    next_deadline_s,
    step,
)

WAITING, HEALTHY, SLOW, HANGING, FAULTED = LogState


def rule(**fields: Any) -> LogRule:
    return LogRule(**{"name": "r", "pattern": "x", "kind": RuleKind.HANG, "action": RuleAction.FAULT, **fields})


class Story:
    """A rule on a rank that started at second 0."""

    def __init__(self, told: LogRule) -> None:
        self.rule = told
        self.state = RuleState(since_s=0.0)
        self.verdicts: list[LogVerdict] = []

    def line(self, at_s: float, value: bytes | None = None, *, matched: bool = True, stopped: bool = False) -> LogState:
        return self._step(LineSeen(matched=matched, value=value, stopped=stopped), at_s)

    def time(self, at_s: float) -> LogState:
        return self._step(TimePassed(), at_s)

    def _step(self, event: LineSeen | TimePassed, at_s: float) -> LogState:
        after = step(self.rule, self.state, event, now_s=at_s)
        self.state = after.state
        if after.verdict is not None:
            self.verdicts.append(after.verdict)
        return self.state.state

    @property
    def deadline_s(self) -> float | None:
        return next_deadline_s(self.rule, self.state)

    @property
    def told(self) -> list[LogState]:
        return [verdict.state for verdict in self.verdicts]


def test_a_line_that_does_not_come_in_time_after_the_start() -> None:
    story = Story(rule(name="JobStart", start_cut_off_s=120.0))
    assert story.deadline_s == 120.0
    assert story.time(119.9) is WAITING
    assert story.time(120.0) is HANGING
    assert story.verdicts[0].rule_id == "LogHang_JobStart"
    assert story.verdicts[0].sentence == "JobStart is hanging: no line matched within 120 s of the start"
    assert story.deadline_s is None
    assert story.line(130.0) is HEALTHY
    assert story.told == [HANGING, HEALTHY]


def test_a_line_that_stops_coming() -> None:
    story = Story(rule(recurring_s=10.0))
    assert story.deadline_s is None, "without a first line there is no gap"
    assert story.time(1_000.0) is WAITING
    assert story.line(1_001.0) is HEALTHY
    assert story.line(1_009.0) is HEALTHY
    assert story.deadline_s == 1_019.0
    assert story.time(1_011.0) is HEALTHY
    assert story.time(1_019.0) is HANGING
    assert "no line matched for 10 s, after 2 that did" in story.verdicts[0].sentence


def test_start_and_gap_together_use_the_start_until_the_first_line_only() -> None:
    story = Story(rule(start_cut_off_s=600.0, recurring_s=300.0))
    assert story.deadline_s == 600.0
    story.line(50.0)
    assert story.deadline_s == 350.0
    assert story.time(349.0) is HEALTHY
    assert story.time(350.0) is HANGING


def test_a_late_line_is_believed_before_the_clock() -> None:
    story = Story(rule(recurring_s=10.0))
    story.line(0.0)
    assert story.line(25.0) is HEALTHY
    assert story.told == []


def test_a_loss_that_is_too_high_five_times_in_a_row() -> None:
    condition = MetricCondition(operator=Operator.GT, threshold=2.0, data_points=5)
    story = Story(rule(name="LossSpikeDetection", kind=RuleKind.METRIC, metric=condition))
    for second, value in enumerate((b"2.5", b"2.6", b"1.9", b"2.1", b"2.2", b"2.3", b"2.4")):
        assert story.line(second, value) is HEALTHY
    assert story.line(8.0, b"2.71") is SLOW
    assert story.verdicts[0].rule_id == "LogSlow_LossSpikeDetection"
    assert story.verdicts[0].value == 2.71
    assert "2.71 gt 2 (5 values in a row)" in story.verdicts[0].sentence
    assert story.line(9.0, b"1.0") is HEALTHY
    assert story.told == [SLOW, HEALTHY]


def test_values_that_are_no_numbers_keep_the_state_but_meet_the_expectation() -> None:
    condition = MetricCondition(operator=Operator.GT, threshold=2.0, data_points=2)
    story = Story(rule(kind=RuleKind.METRIC, metric=condition, recurring_s=10.0))
    story.line(0.0, b"3")
    assert story.line(1.0, b"n/a") is HEALTHY
    assert story.line(2.0, b"3") is SLOW
    assert story.line(3.0, b"nan") is SLOW
    assert story.deadline_s == 13.0
    assert story.state.metric.unusable == 2


def test_a_loss_that_is_no_number_any_more() -> None:
    condition = MetricCondition(non_finite=frozenset({NonFinite.NAN}))
    story = Story(rule(kind=RuleKind.METRIC, metric=condition))
    assert story.line(0.0, b"1.5") is HEALTHY
    assert story.line(1.0, b"nan") is SLOW


def test_a_throughput_that_halves_against_its_own_past_and_does_not_become_the_new_normal() -> None:
    condition = MetricCondition(
        operator=Operator.LT, relative_to_median=0.8, window_points=20, points_min=10, data_points=3
    )
    story = Story(rule(kind=RuleKind.METRIC, metric=condition))
    for second in range(10):
        assert story.line(second, b"100") is HEALTHY
    assert [story.line(20.0 + n, b"50") for n in range(3)] == [HEALTHY, HEALTHY, SLOW]
    assert all(story.line(30.0 + n, b"50") is SLOW for n in range(50))
    assert story.line(90.0, b"99") is HEALTHY
    assert story.told == [SLOW, HEALTHY]


def test_a_fault_line_faults_and_nothing_heals_it() -> None:
    story = Story(rule(name="oom", kind=RuleKind.FAULT, fault_on_match=True, recurring_s=1.0))
    assert story.line(0.0) is FAULTED
    assert story.verdicts[0].rule_id == "LogFault_oom"
    assert story.time(100.0) is FAULTED
    assert story.line(101.0) is FAULTED
    assert story.line(102.0, matched=False, stopped=True) is FAULTED
    assert story.deadline_s is None
    assert story.told == [FAULTED]


def test_the_stop_pattern_retires_a_rule_for_good() -> None:
    story = Story(rule(start_cut_off_s=10.0, recurring_s=5.0))
    story.line(0.0)
    assert story.line(1.0, matched=False, stopped=True) is HEALTHY
    assert story.deadline_s is None
    assert story.time(1_000.0) is HEALTHY
    assert story.line(1_001.0) is HEALTHY
    assert story.state.matches == 1


def test_a_line_that_matches_pattern_and_stop_pattern_is_not_measured() -> None:
    condition = MetricCondition(operator=Operator.GT, threshold=2.0)
    story = Story(rule(kind=RuleKind.METRIC, metric=condition))
    assert story.line(0.0, b"99", stopped=True) is HEALTHY
    assert not story.state.active


def test_a_line_that_matches_a_fault_and_the_stop_pattern_is_a_fault() -> None:
    story = Story(rule(kind=RuleKind.FAULT, fault_on_match=True))
    assert story.line(0.0, stopped=True) is FAULTED


def test_a_retired_rule_takes_back_what_it_said() -> None:
    story = Story(rule(recurring_s=1.0))
    story.line(0.0)
    story.time(1.0)
    story.line(2.0, matched=False, stopped=True)
    assert story.told == [HANGING, HEALTHY]


def test_a_flapping_rule_is_told_once_in_a_cool_down_and_again_when_it_is_still_bad_after_it() -> None:
    condition = MetricCondition(operator=Operator.GT, threshold=2.0)
    story = Story(rule(kind=RuleKind.METRIC, action=RuleAction.ALERT, metric=condition, cooldown_s=60.0))
    for second in range(0, 20, 2):
        story.line(second, b"3")
        story.line(second + 1, b"1")
    assert story.told == [SLOW, HEALTHY]
    story.line(20.0, b"3")
    assert story.told == [SLOW, HEALTHY]
    assert story.deadline_s == 60.0, "the report that is held back"
    story.time(59.0)
    assert story.told == [SLOW, HEALTHY]
    story.time(60.0)
    assert story.told == [SLOW, HEALTHY, SLOW]
    assert story.verdicts[-1].suppressed > 0
    assert story.deadline_s is None


def test_a_heavier_state_does_not_wait_for_the_cool_down() -> None:
    condition = MetricCondition(operator=Operator.GT, threshold=2.0)
    story = Story(rule(kind=RuleKind.METRIC, metric=condition, recurring_s=5.0, cooldown_s=60.0))
    story.line(0.0, b"3")
    story.line(1.0, b"1")
    assert story.time(6.0) is HANGING
    assert story.told == [SLOW, HEALTHY, HANGING]


def test_a_repeated_fault_line_is_told_again_only_after_a_cool_down() -> None:
    story = Story(rule(kind=RuleKind.FAULT, action=RuleAction.ALERT, fault_on_match=True, cooldown_s=10.0))
    for second in range(0, 25, 5):
        story.line(second)
    assert story.told == [FAULTED, FAULTED, FAULTED]
    assert [verdict.suppressed for verdict in story.verdicts] == [0, 1, 1]


def test_a_rule_that_judges_nothing_is_healthy_when_its_line_comes() -> None:
    story = Story(rule())
    assert story.line(0.0, b"1") is HEALTHY
    assert story.told == []


@pytest.mark.parametrize("state", LogState)
def test_every_state_has_a_row_in_the_table_and_faulted_is_the_end(state: LogState) -> None:
    assert state not in TRANSITIONS[state]
    assert WAITING not in TRANSITIONS[state], "a rank does not become unseen"
    assert (TRANSITIONS[state] == frozenset()) == (state is FAULTED)


def in_state(state: LogState) -> RuleState:
    return RuleState(since_s=0.0, state=state)


def test_the_heaviest_rule_speaks_for_the_rank() -> None:
    alert = rule(name="slow", action=RuleAction.ALERT)
    fault = rule(name="hang", action=RuleAction.FAULT)
    observe = rule(name="hang2", action=RuleAction.OBSERVE)
    all_states = [(alert, in_state(SLOW)), (observe, in_state(HANGING)), (fault, in_state(HANGING))]
    combined = combine([*all_states, (rule(name="fine"), in_state(HEALTHY))])
    assert combined.state is HANGING
    assert combined.rules == ("hang2", "hang")
    assert combined.action is RuleAction.FAULT
    assert combined.reason == "LogHang_hang2"


@pytest.mark.parametrize(
    ("lighter", "heavier"), [(WAITING, HEALTHY), (HEALTHY, SLOW), (SLOW, HANGING), (HANGING, FAULTED)]
)
def test_states_have_this_order(lighter: LogState, heavier: LogState) -> None:
    combined = combine([(rule(name="a"), in_state(lighter)), (rule(name="b"), in_state(heavier))])
    assert (combined.state, combined.rules) == (heavier, ("b",))
    assert (combined.reason != "") == (heavier in BAD_STATES)


def test_no_rules_say_nothing() -> None:
    assert combine([]).state is WAITING
