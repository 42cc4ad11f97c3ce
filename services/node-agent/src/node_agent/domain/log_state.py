"""One rule on one rank: WAITING, HEALTHY, SLOW, HANGING or FAULTED, and when to say so. Pure; time comes in.

The order in which one line is weighed is HyperPod's: the line counts as seen, a fault rule faults, the stop pattern
retires the rule, then the metric decides. `now_s` is any clock that stands still while the rank is suspended, so that
time between two stages is not held against it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from node_agent.domain.log_metric import MetricMemory, describe, judge
from node_agent.domain.log_rule import ACTIONS_BY_WEIGHT, LogRule, MetricCondition, RuleAction


class LogState(StrEnum):
    """What a rule thinks of a rank."""

    WAITING = "waiting"
    """No line matched yet."""
    HEALTHY = "healthy"
    SLOW = "slow"
    HANGING = "hanging"
    FAULTED = "faulted"


STATES_BY_WEIGHT = (LogState.WAITING, LogState.HEALTHY, LogState.SLOW, LogState.HANGING, LogState.FAULTED)
WAITING, HEALTHY, SLOW, HANGING, FAULTED = STATES_BY_WEIGHT
_WEIGHT = {state: weight for weight, state in enumerate(STATES_BY_WEIGHT)}
BAD_STATES = frozenset({SLOW, HANGING, FAULTED})

TRANSITIONS: Mapping[LogState, frozenset[LogState]] = {
    WAITING: frozenset({HEALTHY, SLOW, HANGING, FAULTED}),
    HEALTHY: frozenset({SLOW, HANGING, FAULTED}),
    SLOW: frozenset({HEALTHY, HANGING, FAULTED}),
    HANGING: frozenset({HEALTHY, SLOW, FAULTED}),
    FAULTED: frozenset(),
}
"""FAULTED lasts until the rank is started anew."""

_RETIRED = "the stop pattern retired it"
_WORDS = {SLOW: "out of bounds"}
"""A metric over its threshold may be a speed, or a loss that is NaN; the name of the state fits only the first."""
_REASON_PREFIX = {SLOW: "LogSlow", HANGING: "LogHang", FAULTED: "LogFault"}


class LineSeen(NamedTuple):
    """A line on which the rule's pattern matched, its stop pattern, or both.

    Attributes:
        value: the captured text (metric: group 1; step: group `step`); None without one.
        path: the group `path` of a checkpoint rule.
        line: without its newline and cut to LINE_BYTES_MAX; not weighed, only told.
        offset: place of the line in its block; only told.
    """

    matched: bool = True
    value: bytes | None = None
    stopped: bool = False
    path: bytes | None = None
    line: bytes = b""
    offset: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """Nothing was printed; look at the clock."""


LogEvent = LineSeen | TimePassed


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What was told of a rule on a rank.

    Attributes:
        state: told last; differs from the true state during a cool-down.
        bad: the bad state told last; a heavier one is told at once, cool-down or not.
        bad_at_s: when.
        suppressed: reports held back by the cool-down since then.
    """

    state: LogState = WAITING
    bad: LogState = WAITING
    bad_at_s: float | None = None
    suppressed: int = 0


_NO_METRIC = MetricMemory()
_NOTHING_TOLD = Told()


class RuleState(NamedTuple):
    """What is remembered about one rule on one rank.

    Attributes:
        since_s: when the watch began.
        active: False once the stop pattern retired the rule.
        why: the second half of a sentence: what made the state.
    """

    since_s: float
    state: LogState = WAITING
    why: str = ""
    active: bool = True
    last_match_s: float | None = None
    matches: int = 0
    metric: MetricMemory = _NO_METRIC
    told: Told = _NOTHING_TOLD


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


class LogStep(NamedTuple):
    """The state after an event, and what is to be told, if anything."""

    state: RuleState
    verdict: LogVerdict | None = None


def reason_id(state: LogState, name: str) -> str:
    """The reason's name, as HyperPod spells it."""
    return f"{_REASON_PREFIX.get(state, 'LogHealthy')}_{name}"


def step(rule: LogRule, state: RuleState, event: LogEvent, *, now_s: float) -> LogStep:
    """Weigh one event."""
    if not state.active:
        return LogStep(state)
    match event:
        case LineSeen():
            after = _after_line(rule, state, event, now_s)
        case TimePassed():
            after = _after_time(rule, state, now_s)
    is_again = after.state is state.state
    assert is_again or after.state in TRANSITIONS[state.state], f"{state.state} to {after.state} of {rule.name}"
    if is_again and after.state is after.told.state and not (after.state is FAULTED and rule.cooldown_s > 0):
        return LogStep(after)
    return _told(rule, after, now_s, again=isinstance(event, LineSeen) and event.matched)


def next_deadline_s(rule: LogRule, state: RuleState) -> float | None:
    """When TimePassed would change something, if no line comes before; None when it never would."""
    if not state.active or state.state is FAULTED:
        return None
    if state.state is not HANGING:
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
    told = state.told
    if state.state in BAD_STATES and state.state is not told.state and told.bad_at_s is not None:
        return told.bad_at_s + rule.cooldown_s
    return None


def _after_line(rule: LogRule, state: RuleState, event: LineSeen, now_s: float) -> RuleState:
    if not event.matched:
        stays = state.state is FAULTED or not event.stopped
        return state if stays else state._replace(active=False, state=HEALTHY, why=_RETIRED)
    to, why, metric, is_active = HEALTHY, "the line came", state.metric, True
    if rule.fault_on_match:
        to, why = FAULTED, "the line matched"
    elif event.stopped:
        why, is_active = _RETIRED, False
    elif rule.metric is not None:
        to, why, metric = _after_value(rule.metric, state, event.value)
    # The constructor and not _replace, which takes three times as long: this runs for every line that matches.
    return RuleState(state.since_s, to, why, is_active, now_s, state.matches + 1, metric, state.told)


def _after_value(condition: MetricCondition, state: RuleState, raw: bytes | None) -> tuple[LogState, str, MetricMemory]:
    point = judge(condition, raw, state.metric.recent)
    memory = state.metric.after(condition, point)
    if memory.row < condition.data_points:
        return HEALTHY, "the value is good again", memory
    return SLOW, describe(condition, point, state.metric.recent, memory.row), memory


def _after_time(rule: LogRule, state: RuleState, now_s: float) -> RuleState:
    if state.state is HANGING or state.state is FAULTED:
        return state
    if state.last_match_s is None:
        limit = rule.start_cut_off_s
        if limit is not None and now_s >= state.since_s + limit:
            why = f"no line matched within {limit:g} s of the start"
            return state._replace(state=HANGING, why=why)
    elif rule.recurring_s is not None and now_s >= state.last_match_s + rule.recurring_s:
        why = f"no line matched for {rule.recurring_s:g} s, after {state.matches} that did"
        return state._replace(state=HANGING, why=why)
    return state


def _told(rule: LogRule, state: RuleState, now_s: float, *, again: bool) -> LogStep:
    """Tell a bad state unless the cool-down holds it back; tell its end when it was told before."""
    told = state.told
    if state.state not in BAD_STATES:
        after = state._replace(told=replace(told, state=state.state, suppressed=0))
        return LogStep(state=after, verdict=_verdict(rule, state) if told.state in BAD_STATES else None)
    if state.state is told.state and not (again and rule.cooldown_s > 0):
        return LogStep(state=state)
    is_heavier = _WEIGHT[state.state] > _WEIGHT[told.bad]
    is_cooling = told.bad_at_s is not None and now_s < told.bad_at_s + rule.cooldown_s
    if is_cooling and not is_heavier:
        return LogStep(state=state._replace(told=replace(told, suppressed=told.suppressed + again)))
    told = Told(state=state.state, bad=state.state, bad_at_s=now_s)
    return LogStep(state=state._replace(told=told), verdict=_verdict(rule, state))


def _verdict(rule: LogRule, state: RuleState) -> LogVerdict:
    """Told now."""
    return LogVerdict(
        rule_id=reason_id(state.state, rule.name),
        state=state.state,
        sentence=f"{rule.name} is {_WORDS.get(state.state, state.state)}: {state.why}",
        value=state.metric.value,
        suppressed=state.told.suppressed,
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

    state: LogState = WAITING
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
