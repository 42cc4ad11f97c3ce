"""The planner's own word on each restart: level, wait, budget, end. One job's past under one policy."""

from __future__ import annotations

from datetime import datetime

from fault_contracts.agent import JobSpec
from fault_contracts.faults import Action, Attribution
from fault_contracts.policy import RecoveryPolicy
from fault_contracts.recovery import JobOutcome
from fault_contracts.recovery_level import RecoveryLevel
from phalanx_cli.simulate import faults
from phalanx_cli.simulate.faults import Symptom
from phalanx_cli.simulate.listing import at
from recovery_planner.domain.budget import budget_at
from recovery_planner.domain.escalation import Answer, Fault, answer
from recovery_planner.domain.past_restarts import PastRestart, remembered


class Decisions:
    """Asks `escalation.answer` and `budget_at` as a plan does, and keeps what a gang's record would keep."""

    def __init__(self, policy: RecoveryPolicy, nodes: int) -> None:
        # How large the gang may be plays no part in an answer.
        policy = policy.model_copy(update={"elastic": None})
        self._spec = JobSpec(nnodes=nodes, nproc_per_node=8, policy=policy)
        self._past: tuple[PastRestart, ...] = ()
        self._restarts: tuple[datetime, ...] = ()

    def decide(self, attribution: Attribution, cause: str, action: Action, now_s: float) -> Answer:
        """Decide on one restart, and remember it. A job that ends begins anew, with an empty past."""
        now = at(now_s)
        gives_up_node = action in (Action.RESET_GPU, Action.REBOOT_NODE, Action.REPLACE_NODE)
        level = RecoveryLevel.JOB if gives_up_node else RecoveryLevel.IN_PROCESS
        fault = Fault(attribution=attribution, cause=cause, action=action, level=level)
        said = answer(fault, self._spec, self._past, now=now)
        budget = budget_at(self._spec, self._restarts, now)
        if said.outcome is None and budget.left < 1:
            said = Answer(
                level=RecoveryLevel.FAILED,
                outcome=JobOutcome.FAILED_BUDGET,
                rule_id="plan.budget",
                sentence=budget.sentence,
            )
        if said.outcome is not None:
            self._past, self._restarts = (), ()
            return said
        # Restarts that give a node up are of level job in the record, as in a plan.
        restart = PastRestart(at=now, level=said.level, attribution=attribution, cause=cause)
        self._past = remembered(self._past, restart)
        self._restarts = (*budget.restarts, now)
        return said


def costs_node(fault: faults.Fault) -> bool:
    """Whether a right verdict blames the machine."""
    return fault.kind.of_node or fault.kind.symptom is Symptom.LOST or fault.kind.attribution is Attribution.UNKNOWN


def verdict_of(fault: faults.Fault, *, named: bool, takes_out: bool) -> tuple[Attribution, Action]:
    """As the classifier would say it."""
    if fault.kind.attribution is Attribution.USER:
        return Attribution.USER, Action.DONT_RETRY_NOTIFY_USER if named else Action.RESTART_PROCESS
    if takes_out:
        return fault.kind.attribution, Action.REPLACE_NODE
    return (fault.kind.attribution if named else Attribution.UNKNOWN), Action.RESTART_PROCESS
