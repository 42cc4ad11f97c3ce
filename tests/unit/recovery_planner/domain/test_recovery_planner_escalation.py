"""What a policy makes of a fault: a table of cases, and limits that hold whatever comes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fault_contracts.agent import JobSpec
from fault_contracts.faults import Action, Attribution
from fault_contracts.policy import Backoff, RecoveryPolicy
from fault_contracts.recovery import JobOutcome
from fault_contracts.recovery_level import RecoveryLevel
from recovery_planner.domain.escalation import Answer, Fault, answer, backoff_s
from recovery_planner.domain.past_restarts import PAST_MAX, PastRestart, remembered, streak

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def ago(seconds: float, level: str = "process", cause: str = "hang", whose: str = "unknown") -> PastRestart:
    return PastRestart(
        at=NOON - timedelta(seconds=seconds),
        level=RecoveryLevel(level),
        attribution=Attribution(whose),
        cause=cause,
    )


def ask(
    policy: dict[str, Any], *past: PastRestart, cause: str = "hang", whose: str = "unknown", **fault: Any
) -> Answer:
    spec = JobSpec(nnodes=2, nproc_per_node=1, policy=RecoveryPolicy.model_validate(policy))
    values: dict[str, Any] = {"action": Action.RESTART_PROCESS, "level": RecoveryLevel.IN_PROCESS, **fault}
    return answer(Fault(attribution=Attribution(whose), cause=cause, **values), spec, past, now=NOON)


JOB = {"level": RecoveryLevel.JOB}
LOW = ("in_process", "policy.level")
USER = {"action": Action.DONT_RETRY_NOTIFY_USER, "whose": "user", "cause": "cuda_oom"}


@pytest.mark.parametrize(
    ("policy", "past", "fault", "level", "rule"),
    [
        ({}, [], {}, "in_process", "policy.level"),
        ({}, [ago(1)] * 9, {}, "in_process", "policy.level"),
        ({"causes": [{"cause": "ha*", "level": "job"}]}, [], {}, "job", "policy.level"),
        ({"causes": [{"cause": "other", "level": "job"}]}, [], {}, "in_process", "policy.level"),
        ({"causes": [{"attribution": "hardware", "level": "job"}]}, [], {"whose": "hardware"}, "job", "policy.level"),
        ({"process_restarts_before_job": 2}, [ago(60)], {}, "in_process", "policy.level"),
        ({"process_restarts_before_job": 2}, [ago(60), ago(30)], {}, "job", "policy.escalated"),
        # A restart of level job begins the count anew.
        ({"process_restarts_before_job": 2}, [ago(90), ago(60), ago(30, "job")], {}, "in_process", "policy.level"),
        # Outside the window, or before a quiet time, it does not count.
        ({"process_restarts_before_job": 2, "window_s": 50}, [ago(60), ago(30)], {}, "in_process", "policy.level"),
        ({"process_restarts_before_job": 1, "quiet_s": 20}, [ago(30)], {}, "in_process", "policy.level"),
        (
            {"process_restarts_before_job": 1, "job_restarts_max": 1},
            [ago(90), ago(60, "job"), ago(30)],
            {},
            "failed",
            "policy.job_budget",
        ),
        ({"causes": [{"cause": "hang", "level_max": "process"}]}, [], JOB, "failed", "policy.level_max"),
        ({"causes": [{"cause": "hang", "restarts_max": 2}]}, [ago(9), ago(8)], {}, "failed", "policy.cause_budget"),
        ({"causes": [{"cause": "hang", "restarts_max": 2}]}, [ago(9), ago(8, cause="x")], {}, *LOW),
        ({"causes": [{"cause": "hang", "retry": "never"}]}, [], {}, "failed", "policy.never"),
        ({"causes": [{"cause": "hang", "retry": "confirm"}]}, [], {}, "in_process", "policy.level"),
        ({"causes": [{"cause": "hang", "retry": "confirm"}]}, [ago(9)], {}, "failed", "policy.confirmed"),
        ({}, [], USER, "failed", "plan.no_retry"),
        # A budget for a user's fault does not make the planner try it.
        ({"causes": [{"cause": "cuda_oom", "restarts_max": 5}]}, [], USER, "failed", "plan.no_retry"),
        ({"confirming_retries": 1}, [], USER, "in_process", "policy.level"),
        ({"confirming_retries": 1}, [ago(9, cause="cuda_oom", whose="user")], USER, "failed", "policy.confirmed"),
    ],
)  # fmt: skip
def test_answers(policy: dict[str, Any], past: list[PastRestart], fault: dict[str, Any], level: str, rule: str) -> None:
    said = ask(policy, *past, **fault)
    assert (said.level, said.rule_id) == (level, rule)
    assert (said.outcome is not None) == (level == "failed")


def test_a_users_fault_ends_as_the_users() -> None:
    assert ask({}, **USER).outcome is JobOutcome.FAILED_USER
    never = {"causes": [{"cause": "hang", "retry": "never"}]}
    assert ask(never).outcome is JobOutcome.FAILED_BUDGET


@pytest.mark.parametrize(("before", "wait"), [(0, 5), (1, 10), (2, 20), (3, 30), (10_000, 30)])
def test_backoff_grows_to_its_limit(before: int, wait: float) -> None:
    assert backoff_s(Backoff(first_s=5, factor=2, max_s=30), before) == wait


def test_backoff_counts_what_a_rule_speaks_of() -> None:
    policy = {"causes": [{"cause": "hang", "backoff": {"first_s": 5}}]}
    assert ask(policy, ago(9), ago(8, cause="oom")).wait_s == 10
    assert ask({"backoff": {"first_s": 5}}, ago(9), ago(8, cause="oom")).wait_s == 20
    assert ask({"backoff": {"first_s": 5}, "quiet_s": 7}, ago(9), ago(8)).wait_s == 5


def test_the_past_is_bounded() -> None:
    past: tuple[PastRestart, ...] = ()
    for _ in range(PAST_MAX + 3):
        past = remembered(past, ago(1))
    assert len(past) == PAST_MAX


def test_a_streak_ends_where_it_was_quiet() -> None:
    past = (ago(500), ago(100), ago(60), ago(30))
    assert streak(past, NOON, 50) == past[1:]
    assert streak(past, NOON, 29) == ()


@given(
    gaps=st.lists(st.floats(0, 4_000), max_size=60),
    limit=st.integers(0, 5),
    window_s=st.floats(1, 4_000),
)
def test_never_more_restarts_of_a_cause_in_a_window_than_its_budget(
    gaps: list[float], limit: int, window_s: float
) -> None:
    policy = RecoveryPolicy.model_validate(
        {"causes": [{"cause": "hang", "restarts_max": limit, "window_s": window_s}], "process_restarts_before_job": 2}
    )
    spec = JobSpec(nnodes=1, nproc_per_node=1, policy=policy)
    fault = Fault(
        attribution=Attribution.UNKNOWN, cause="hang", action=Action.RESTART_PROCESS, level=RecoveryLevel.IN_PROCESS
    )
    now, past = NOON, ()
    for gap in gaps:
        now += timedelta(seconds=gap)
        said = answer(fault, spec, past, now=now)
        if said.outcome is not None:
            continue
        assert said.level is not RecoveryLevel.FAILED
        past = remembered(past, PastRestart(at=now, level=said.level, attribution=fault.attribution, cause=fault.cause))
        since = now - timedelta(seconds=window_s)
        assert sum(each.at > since for each in past) <= limit
