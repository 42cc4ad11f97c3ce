"""One rule on one rank: WAITING, HEALTHY, SLOW, HANGING or FAULTED, and when to say so. Pure; time comes in.

The order in which one line is weighed is HyperPod's: the line counts as seen, a fault rule faults, the stop pattern
retires the rule, then the metric decides. `now_s` is any clock that stands still while the rank is suspended, so that
time between two stages is not held against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from node_agent.domain.log_metric import PointKind, describe, judge, remembered
from node_agent.domain.log_rule import ACTIONS_BY_WEIGHT, LogRule, RuleAction


class LogState(StrEnum):
    """What a rule thinks of a rank."""

    WAITING = "waiting"
    """No line matched yet."""
    HEALTHY = "healthy"
    SLOW = "slow"
    HANGING = "hanging"
    FAULTED = "faulted"


STATES_BY_WEIGHT = (LogState.WAITING, LogState.HEALTHY, LogState.SLOW, LogState.HANGING, LogState.FAULTED)
_WEIGHT = {state: weight for weight, state in enumerate(STATES_BY_WEIGHT)}
BAD_STATES = frozenset({LogState.SLOW, LogState.HANGING, LogState.FAULTED})

TRANSITIONS: Mapping[LogState, frozenset[LogState]] = {
    LogState.WAITING: frozenset({LogState.HEALTHY, LogState.SLOW, LogState.HANGING, LogState.FAULTED}),
    LogState.HEALTHY: frozenset({LogState.SLOW, LogState.HANGING, LogState.FAULTED}),
    LogState.SLOW: frozenset({LogState.HEALTHY, LogState.HANGING, LogState.FAULTED}),
    LogState.HANGING: frozenset({LogState.HEALTHY, LogState.SLOW, LogState.FAULTED}),
    LogState.FAULTED: frozenset(),
}
"""FAULTED lasts until the rank is started anew."""

_REASON_PREFIX = {LogState.SLOW: "LogSlow", LogState.HANGING: "LogHang", LogState.FAULTED: "LogFault"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSeen:
    """A line on which the rule's pattern matched, its stop pattern, or both; `value` is the captured text."""

    matched: bool = True
    value: bytes | None = None
    stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """Nothing was printed; look at the clock."""


LogEvent = LineSeen | TimePassed


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleState:
    """What is remembered about one rule on one rank.

    Attributes:
        since_s: when the watch began.
        active: False once the stop pattern retired the rule.
        slow_points: bad data points in a row, up to now.
        recent: good values, for a relative threshold.
        value: last captured number.
        unusable: captures that were no number, or a NaN that is no condition.
        reported: the state that was told last; differs from `state` during a cool-down.
        reported_bad: the bad state that was told last; a heavier one is told at once, cool-down or not.
        suppressed: reports held back by the cool-down since the last one.
    """

    since_s: float
    state: LogState = LogState.WAITING
    active: bool = True
    last_match_s: float | None = None
    matches: int = 0
    slow_points: int = 0
    recent: tuple[float, ...] = ()
    value: float | None = None
    unusable: int = 0
    why: str = ""
    reported: LogState = LogState.WAITING
    reported_bad: LogState = LogState.WAITING
    reported_s: float | None = None
    suppressed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogVerdict:
    """What is to be told: a bad state, or that one is over (`state` is then HEALTHY).

    Attributes:
        rule_id: `LogFault_<rule>`, `LogHang_<rule>`, `LogSlow_<rule>` or `LogHealthy_<rule>`.
        suppressed: how often the same was not told since, for the cool-down's sake.
    """

    rule_id: str
    state: LogState
    sentence: str
    value: float | None = None
    suppressed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStep:
    """The state after an event, and what is to be told, if anything."""

    state: RuleState
    verdict: LogVerdict | None = None


def reason_id(state: LogState, name: str) -> str:
    """The reason's name, as HyperPod spells it."""
    return f"{_REASON_PREFIX.get(state, 'LogHealthy')}_{name}"


def step(rule: LogRule, state: RuleState, event: LogEvent, *, now_s: float) -> LogStep:
    """Weigh one event."""
    if not state.active or (state.state is LogState.FAULTED and isinstance(event, TimePassed)):
        return LogStep(state=state)
    match event:
        case LineSeen():
            after = _after_line(rule, state, event, now_s)
        case TimePassed():
            after = _after_time(rule, state, now_s)
    if after.state is not state.state:
        assert after.state in TRANSITIONS[state.state], f"{state.state} to {after.state} of {rule.name}"
    elif after.state is after.reported and after.state is not LogState.FAULTED:
        return LogStep(state=after)
    return _told(rule, after, now_s, again=isinstance(event, LineSeen) and event.matched)


def next_deadline_s(rule: LogRule, state: RuleState) -> float | None:
    """When TimePassed would change something, if no line comes before; None when it never would."""
    if not state.active or state.state is LogState.FAULTED:
        return None
    if state.state is not LogState.HANGING:
        if state.last_match_s is None:
            expected = rule.start_cut_off_s
            start_s = state.since_s
        else:
            expected = rule.recurring_s
            start_s = state.last_match_s
        if expected is not None:
            due_s = start_s + expected
            held_s = _held_until_s(rule, state)
            return due_s if held_s is None else min(due_s, held_s)
    return _held_until_s(rule, state)


def _held_until_s(rule: LogRule, state: RuleState) -> float | None:
    """When the cool-down ends that holds back a report."""
    if state.state in BAD_STATES and state.state is not state.reported and state.reported_s is not None:
        return state.reported_s + rule.cooldown_s
    return None


def _after_line(rule: LogRule, state: RuleState, event: LineSeen, now_s: float) -> RuleState:
    if event.matched:
        state = replace(state, last_match_s=now_s, matches=state.matches + 1)
        if rule.fault_on_match:
            return replace(state, state=LogState.FAULTED, why="the line matched")
    elif state.state is LogState.FAULTED:
        return state
    if event.stopped:
        return replace(state, active=False, state=LogState.HEALTHY, slow_points=0, why="the stop pattern retired it")
    return _after_value(rule, state, event.value)


def _after_value(rule: LogRule, state: RuleState, raw: bytes | None) -> RuleState:
    condition = rule.metric
    if condition is None:
        return replace(state, state=LogState.HEALTHY, why="the line came")
    point = judge(condition, raw, state.recent)
    row = state.slow_points
    match point.kind:
        case PointKind.GOOD:
            row = 0
        case PointKind.BAD:
            row = min(row + 1, condition.data_points)
        case PointKind.UNKNOWN:
            state = replace(state, unusable=state.unusable + 1)
    is_slow = row >= condition.data_points
    why = "the value is good again"
    if is_slow:
        why = describe(condition, point, state.recent, row)
    return replace(
        state,
        state=LogState.SLOW if is_slow else LogState.HEALTHY,
        slow_points=row,
        recent=remembered(condition, point, state.recent),
        value=point.value,
        why=why,
    )


def _after_time(rule: LogRule, state: RuleState, now_s: float) -> RuleState:
    if state.state is LogState.HANGING:
        return state
    if state.last_match_s is None:
        limit = rule.start_cut_off_s
        if limit is not None and now_s >= state.since_s + limit:
            why = f"no line matched within {limit:g} s of the start"
            return replace(state, state=LogState.HANGING, why=why)
    elif rule.recurring_s is not None and now_s >= state.last_match_s + rule.recurring_s:
        why = f"no line matched for {rule.recurring_s:g} s, after {state.matches} that did"
        return replace(state, state=LogState.HANGING, why=why)
    return state


def _told(rule: LogRule, state: RuleState, now_s: float, *, again: bool) -> LogStep:
    """Tell a bad state unless the cool-down holds it back; tell its end when it was told before."""
    if state.state not in BAD_STATES:
        if state.reported not in BAD_STATES:
            return LogStep(state=replace(state, reported=state.state))
        verdict = _verdict(rule, state)
        return LogStep(state=replace(state, reported=state.state, suppressed=0), verdict=verdict)
    if state.state is state.reported and not (again and rule.cooldown_s > 0):
        return LogStep(state=state)
    is_heavier = _WEIGHT[state.state] > _WEIGHT[state.reported_bad]
    is_cooling = state.reported_s is not None and now_s < state.reported_s + rule.cooldown_s
    if is_cooling and not is_heavier:
        return LogStep(state=replace(state, suppressed=state.suppressed + again))
    told = replace(state, reported=state.state, reported_bad=state.state, reported_s=now_s, suppressed=0)
    return LogStep(state=told, verdict=_verdict(rule, state))


def _verdict(rule: LogRule, state: RuleState) -> LogVerdict:
    """Told now."""
    return LogVerdict(
        rule_id=reason_id(state.state, rule.name),
        state=state.state,
        sentence=f"{rule.name} is {state.state}: {state.why}",
        value=state.value,
        suppressed=state.suppressed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RankLogState:
    """All rules of one rank together.

    Attributes:
        state: the heaviest.
        rules: names of the rules in that state, in the order of the file.
        action: the heaviest action among them when the state is bad; OBSERVE otherwise.
        reason: of the first of them; empty when the state is not bad.
    """

    state: LogState = LogState.WAITING
    rules: tuple[str, ...] = ()
    action: RuleAction = RuleAction.OBSERVE
    reason: str = ""


def combine(states: Iterable[tuple[LogRule, RuleState]]) -> RankLogState:
    """FAULTED over HANGING over SLOW over HEALTHY over WAITING."""
    pairs = list(states)
    if not pairs:
        return RankLogState()
    heaviest = max((state.state for _, state in pairs), key=_WEIGHT.__getitem__)
    rules = [rule for rule, state in pairs if state.state is heaviest]
    if heaviest not in BAD_STATES:
        return RankLogState(state=heaviest, rules=tuple(rule.name for rule in rules))
    return RankLogState(
        state=heaviest,
        rules=tuple(rule.name for rule in rules),
        action=max((rule.action for rule in rules), key=ACTIONS_BY_WEIGHT.index),
        reason=reason_id(heaviest, rules[0].name),
    )
