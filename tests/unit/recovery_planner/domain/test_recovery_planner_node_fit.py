"""What a standing means for placement: bad is held, unknown is admitted unless ok is demanded."""

from fault_contracts.hardware import NodeStanding
from fault_contracts.payload import Health, Reason
from recovery_planner.domain.node_fit import ADMITTED, fit_of


def test_unknown_is_admitted_unless_ok_is_demanded() -> None:
    assert fit_of(None, ok_demanded=False) == ADMITTED
    assert fit_of(NodeStanding(node_id="a"), ok_demanded=False) == ADMITTED
    assert "demands" in fit_of(None, ok_demanded=True).held
    assert fit_of(NodeStanding(node_id="a", fit=Health.OK), ok_demanded=True) == ADMITTED


def test_bad_is_held_with_its_first_reason_and_a_problem_is_a_doubt() -> None:
    why = Reason(rule_id="node.device_held", sentence="GPU-1 is quarantined")
    doubt = Reason(rule_id="node.problem", sentence="3 % free")
    fit = fit_of(NodeStanding(node_id="a", fit=Health.BAD, reasons=(why,), doubts=(doubt,)), ok_demanded=False)
    assert (fit.held, fit.doubt) == ("GPU-1 is quarantined", "3 % free")
    assert fit_of(NodeStanding(node_id="a", fit=Health.BAD), ok_demanded=False).held
