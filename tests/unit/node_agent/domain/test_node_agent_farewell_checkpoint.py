"""After which step a gang saves when a node is taken away: one that no rank has reached when the request arrives."""

import pytest

from fault_contracts.agent import AgentPhase
from node_agent.domain.farewell_checkpoint import LEAD_S, FarewellPlan, plan_farewell
from node_agent.domain.step_pace import StepPace


def pace(newest: int = 100, step_s: float | None = 0.05) -> StepPace:
    first = ((0.0, newest - 1),) if step_s is not None else ()
    return StepPace(topology_version=3, marks=(*first, (step_s or 0.0, newest)))


def plan(
    of: StepPace, *, phase: AgentPhase = AgentPhase.RUNNING, version: int = 3, links: int = 2, within_s: float = 30.0
) -> FarewellPlan:
    return plan_farewell(of, phase=phase, topology_version=version, links=links, within_s=within_s)


@pytest.mark.parametrize("step_s", [0.001, 0.05, 0.3, 0.9, 1.1, 2.0, 5.0])
def test_no_rank_comes_to_the_step_before_the_request(step_s: float) -> None:
    """The fastest rank anywhere has just finished one step more than ours; it must need LEAD_S to the step, or it must
    have a whole step before it."""
    at_step = plan(pace(100, step_s)).at_step
    assert at_step is not None
    steps_left = at_step - 101
    assert steps_left >= 1
    assert steps_left * step_s >= min(LEAD_S, step_s) - 1e-9
    assert steps_left * step_s > LEAD_S - step_s, "and no earlier than the lead, up to one step"
    assert (steps_left - 1) * step_s <= LEAD_S, "nor later than needed"


def test_the_first_known_step_is_enough() -> None:
    assert plan(pace(7, None)).at_step == 9


@pytest.mark.parametrize(
    ("found", "rule"),
    [
        (plan(pace(), phase=AgentPhase.FAULTED), "idle"),
        (plan(pace(), phase=AgentPhase.READY), "idle"),
        (plan(pace(), links=0), "no_worker_link"),
        (plan(StepPace()), "no_step"),
        (plan(pace(), version=4), "no_step"),
        (plan(pace(), within_s=0), "no_time"),
        (plan(pace(100, 20.0), within_s=30), "too_slow"),
    ],
)
def test_where_it_makes_no_sense_the_signal_goes_to_the_ranks_and_it_is_said_why(
    found: FarewellPlan, rule: str
) -> None:
    assert found.at_step is None
    assert found.reason.rule_id == f"farewell.{rule}"
    assert found.reason.sentence
