"""How patience follows from what is known of a job's progress."""

from __future__ import annotations

import pytest

from node_agent.domain.hang_policies import DetectionPolicy, ProgressSource
from node_agent.domain.hang_verdict import HangPolicy
from node_agent.domain.progress_limit import GLOO_TIMEOUT_S
from node_agent.domain.progress_watch import Pace, ProgressWatch, StepFinished, after, look


def test_without_steps_nothing_is_late_before_the_silence_and_nothing_ever_overdue() -> None:
    policy = DetectionPolicy(silence_s=100.0).progress_of(ProgressSource.CPU)
    watch = ProgressWatch(since_s=0.0)
    assert look(watch, now_s=99.0, policy=policy).pace is Pace.ON_TIME
    for mark in range(1, 50):
        watch = after(watch, StepFinished(step=mark), now_s=float(mark), policy=policy)
    assert look(watch, now_s=148.0, policy=policy).pace is Pace.ON_TIME
    assert look(watch, now_s=150.0, policy=policy).pace is Pace.LATE
    assert look(watch, now_s=10 * GLOO_TIMEOUT_S, policy=policy).pace is Pace.LATE


def test_without_steps_a_rank_that_works_alone_is_never_blamed() -> None:
    policy = DetectionPolicy()
    assert policy.hang_of(ProgressSource.CPU).alone_s > 10 * GLOO_TIMEOUT_S
    assert policy.hang_of(ProgressSource.STEPS) == HangPolicy()


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_limits_that_are_none_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="silence_s"):
        DetectionPolicy(silence_s=bad)
    with pytest.raises(ValueError, match="idle_s"):
        DetectionPolicy(hang=HangPolicy(idle_s=bad))
