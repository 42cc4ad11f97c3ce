"""What is written into a node: cordon, taints, the startup taint, the drain's clock, the cap."""

from dataclasses import replace
from datetime import timedelta

import pytest
from kube_node_cast import NOON, Machine, life, standing

from fault_contracts.payload import Health
from fault_contracts.remediation import NodePhase
from recovery_planner.domain.kube_node_seen import CORDONED, NOT_VALIDATED, UNHEALTHY
from recovery_planner.domain.kube_nodes import Known, MirrorRules, admitted

OUT = Known(life=life(NodePhase.QUARANTINED))
OK = Known(standing=standing(), life=life(NodePhase.PROBATION, rule_id="gate.passed"))
THEIRS = {"key": "theirs", "effect": "NoExecute", "timeAdded": "2030-01-01T00:00:00Z"}


def taints(machine: Machine) -> set[str]:
    return {taint["key"] for taint in machine.spec.get("taints") or ()}


def test_a_node_that_is_out_is_tainted_and_cordoned_and_comes_back_with_what_others_set() -> None:
    machine = Machine(taints=[THEIRS])
    decided = machine.round(OUT)
    assert decided.patch is not None
    assert decided.patch["metadata"]["resourceVersion"] == "7"
    assert machine.spec == {
        "taints": [THEIRS, {"key": UNHEALTHY, "value": "quarantined", "effect": "NoSchedule"}], "unschedulable": True
    }  # fmt: skip
    assert machine.round(OUT).patch is None  # a second round changes nothing
    machine.round(OK)
    assert (machine.spec["taints"], machine.spec["unschedulable"]) == ([THEIRS], False)
    assert machine.reasons == ["Cordoned", "Uncordoned"]
    assert machine.round(OK).patch is None


def test_what_somebody_else_cordoned_stays_cordoned() -> None:
    machine = Machine(unschedulable=True)
    machine.round(OUT)
    assert machine.seen.cordoned_for is None
    machine.round(OK)
    assert machine.spec["unschedulable"] is True


def test_who_uncordons_our_node_is_not_fought() -> None:
    machine = Machine()
    machine.round(OUT)
    machine.node["spec"]["unschedulable"] = False
    for _ in range(3):
        machine.round(OUT)
        assert machine.spec["unschedulable"] is False
    assert machine.reasons == ["Cordoned", "UncordonedBySomebody"]
    machine.node["spec"]["unschedulable"] = True  # and cordons it for themselves
    machine.round(OK)
    assert machine.spec["unschedulable"] is True
    assert CORDONED not in machine.node["metadata"]["annotations"]


def test_a_taint_that_was_taken_away_or_changed_comes_back() -> None:
    machine = Machine()
    machine.round(OUT)
    machine.node["spec"]["taints"] = [{"key": UNHEALTHY, "value": "x", "effect": "PreferNoSchedule"}]
    machine.round(OUT)
    assert machine.spec["taints"] == [{"key": UNHEALTHY, "value": "quarantined", "effect": "NoSchedule"}]


def test_a_bad_standing_keeps_a_node_out_unless_its_devices_are_apart() -> None:
    machine = Machine()
    bad = Known(standing=standing(fit=Health.BAD))
    machine.round(bad)
    assert taints(machine) == {UNHEALTHY}
    machine.round(replace(bad, devices_apart=True))
    assert taints(machine) == set()


@pytest.mark.parametrize(
    ("phase", "rule_id", "since_s", "gone"),
    [
        (NodePhase.VALIDATING, "gate.round", 0, False),
        (NodePhase.PROBATION, "gate.passed", 0, True),
        (NodePhase.OK, "node.proven", 0, True),
        (NodePhase.OK, "node.cleared", 0, False),  # it was only suspect: nobody tried it out
        (NodePhase.PROBATION, "gate.passed", -86_400, False),  # another machine had this name
    ],
)
def test_the_startup_taint_goes_when_the_gate_was_passed(
    phase: NodePhase, rule_id: str, since_s: float, gone: bool
) -> None:
    machine = Machine(taints=[{"key": NOT_VALIDATED, "effect": "NoSchedule"}])
    known = Known(standing=standing(), life=life(phase, rule_id=rule_id, since=NOON + timedelta(seconds=since_s)))
    decided = machine.round(known)
    assert (NOT_VALIDATED not in taints(machine)) is gone
    assert ("Validated" in machine.reasons) is gone
    assert decided.gate_wanted is (not gone and phase is not NodePhase.VALIDATING)


def test_a_new_node_with_the_startup_taint_asks_for_the_gate() -> None:
    machine = Machine(taints=[{"key": NOT_VALIDATED, "effect": "NoSchedule"}])
    assert machine.round(Known()).gate_wanted
    assert not Machine().round(Known()).gate_wanted


def test_drain_begins_when_ranks_are_gone_and_ends_in_words_not_in_force() -> None:
    machine = Machine()
    rules = MirrorRules(drain_s=60)
    assert not machine.round(Known(life=life(NodePhase.DRAINING)), rules).drain
    repairing = Known(life=life(NodePhase.REMEDIATING))
    assert machine.round(repairing, rules, stuck="default/p (budget)").drain
    machine.later(61)
    late = machine.round(repairing, rules, stuck="default/p (budget)")
    assert (late.drain, late.overdue) == (False, True)
    said = machine.condition("PhalanxInRemediation")
    assert (said["status"], said["reason"]) == ("True", "DrainTimedOut")
    assert "default/p (budget)" in said["message"]
    machine.round(repairing, rules, stuck="default/p (budget)")
    assert machine.reasons.count("DrainTimedOut") == 1
    machine.round(OK, rules)
    assert machine.seen.drain_began == ""


def test_a_drain_that_is_late_but_left_nothing_is_no_trouble() -> None:
    machine = Machine()
    rules = MirrorRules(drain_s=60)
    repairing = Known(life=life(NodePhase.REMEDIATING))
    machine.round(repairing, rules)
    machine.later(61)
    machine.round(repairing, rules, stuck="")
    assert machine.condition("PhalanxInRemediation")["reason"] == "Remediating"


def test_the_cap_keeps_the_rest_in_use_and_says_so() -> None:
    nodes = {}
    for number in range(10):
        machine = Machine()
        machine.node["metadata"]["name"] = f"n{number}"
        if number == 9:
            machine.round(OUT)
        nodes[f"n{number}"] = (machine.seen, OUT)
    allowed = admitted(nodes, MirrorRules(share_max=0.3))
    assert allowed == {"n9", "n0", "n1"}  # who is out stays out
    held = Machine()
    held.round(OUT, may_keep_out=False)
    assert held.spec == {}
    assert held.condition("PhalanxInRemediation")["reason"] == "BlastRadiusReached"
    assert held.reasons == ["BlastRadiusReached"]
    held.round(OUT, may_keep_out=False)
    assert held.reasons == ["BlastRadiusReached"]


def test_one_node_is_always_allowed() -> None:
    assert admitted({"n1": (Machine().seen, OUT)}, MirrorRules(share_max=0.01)) == {"n1"}
