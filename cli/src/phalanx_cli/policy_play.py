"""What a recovery policy makes of one fault that comes again and again, asked of the planner's own domain."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from fault_contracts.agent import JobSpec
from fault_contracts.faults import Action, Attribution
from fault_contracts.recovery import JobOutcome
from fault_contracts.recovery_level import RecoveryLevel
from recovery_planner.domain.budget import budget_at
from recovery_planner.domain.culprit import level_of
from recovery_planner.domain.escalation import Answer, Fault, answer
from recovery_planner.domain.past_restarts import PastRestart, remembered

_USUAL_ACTION = {
    Attribution.USER: Action.DONT_RETRY_NOTIFY_USER,
    Attribution.HARDWARE: Action.REPLACE_NODE,
    Attribution.DRIVER: Action.REBOOT_NODE,
    Attribution.PLATFORM: Action.RESTART_PROCESS,
    Attribution.UNKNOWN: Action.RESTART_PROCESS,
}


def usual_action(attribution: Attribution) -> Action:
    """What a verdict of this attribution mostly recommends."""
    return _USUAL_ACTION[attribution]


def played(fault_of: tuple[Attribution, str, Action], spec: JobSpec, *, times: int, every_s: float) -> Iterator[str]:
    """One sentence a fault, until the job ends.

    Args:
        fault_of: attribution, cause and recommended action of the verdict.
        spec: the job, with its policy.
        times: how often the fault comes.
        every_s: between two of them.
    """
    attribution, cause, action = fault_of
    least = RecoveryLevel.JOB if level_of(action) is RecoveryLevel.JOB else RecoveryLevel.IN_PROCESS
    fault = Fault(attribution=attribution, cause=cause, action=action, level=least)
    now = datetime(2000, 1, 1, tzinfo=UTC)
    past: tuple[PastRestart, ...] = ()
    restarts: tuple[datetime, ...] = ()
    for number in range(1, times + 1):
        said, restarts = _with_budget(answer(fault, spec, past, now=now), spec, restarts, now)
        after = f"after {every_s * (number - 1):g} s"
        if said.outcome is not None:
            yield f"{number:>3}. {after}: the job ends ({said.outcome}): {said.sentence}"
            return
        wait = f" after a wait of {said.wait_s:g} s" if said.wait_s else ""
        yield f"{number:>3}. {after}: restart, level {_named(said.level)}{wait}; {_why(said)}"
        past = remembered(past, PastRestart(at=now, level=said.level, attribution=attribution, cause=cause))
        now += timedelta(seconds=every_s)


def _with_budget(
    said: Answer, spec: JobSpec, restarts: tuple[datetime, ...], now: datetime
) -> tuple[Answer, tuple[datetime, ...]]:
    """The job's budget over all causes is asked as the planner asks it: after the policy's own word."""
    budget = budget_at(spec, restarts, now)
    if said.outcome is not None:
        return said, budget.restarts
    if budget.left < 1:
        ended = Answer(level=RecoveryLevel.FAILED, outcome=JobOutcome.FAILED_BUDGET, sentence=budget.sentence)
        return ended, budget.restarts
    return said, (*budget.restarts, now)


def _named(level: RecoveryLevel) -> str:
    return "in_process where the script can, else process" if level is RecoveryLevel.IN_PROCESS else str(level)


def _why(said: Answer) -> str:
    return "; ".join(f"{sentence} [{rule_id}]" for rule_id, sentence in said.notes) or "as the verdict says"
