"""Every doubt keeps a node."""

from dataclasses import replace
from datetime import timedelta

import pytest
from kube_node_cast import NOON, Machine, life

from fault_contracts.remediation import NodePhase
from recovery_planner.domain.kube_nodes import Known
from recovery_planner.domain.kube_retire import Replacement, RetireRules, retire

RULES = RetireRules(how=Replacement.NODE_CLAIM, nodes_max=1, window_s=60)


def given_up() -> Machine:
    machine = Machine()
    machine.round(Known(life=life(NodePhase.REPLACED)))
    return machine


def test_a_node_that_was_given_up_goes() -> None:
    assert retire(given_up().seen, life(NodePhase.REPLACED), RULES, retired_at=(), now=NOON).why_not == ""


@pytest.mark.parametrize("phase", [phase for phase in NodePhase if phase is not NodePhase.REPLACED])
def test_no_other_phase_costs_a_node(phase: NodePhase) -> None:
    assert retire(given_up().seen, life(phase), RULES, retired_at=(), now=NOON).why_not


def test_every_doubt_keeps_it() -> None:
    seen, replaced = given_up().seen, life(NodePhase.REPLACED)
    assert retire(seen, None, RULES, retired_at=(), now=NOON).why_not
    assert retire(seen, replaced, RetireRules(), retired_at=(), now=NOON).why_not
    assert retire(replace(seen, created_at=None), replaced, RULES, retired_at=(), now=NOON).why_not
    assert retire(replace(seen, created_at=NOON + timedelta(1)), replaced, RULES, retired_at=(), now=NOON).why_not
    assert retire(Machine().seen, replaced, RULES, retired_at=(), now=NOON).why_not
    capped = retire(seen, replaced, RULES, retired_at=(NOON,), now=NOON + timedelta(seconds=59))
    assert (bool(capped.why_not), capped.worth_telling) == (True, True)
    assert not retire(seen, replaced, RULES, retired_at=(NOON,), now=NOON + timedelta(seconds=61)).why_not
