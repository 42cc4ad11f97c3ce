"""What is told of a node while it is decided on: one journal entry a move, and what comes next in words."""

from dataclasses import replace

import pytest
from node_ward import LADDER, NOON, Ward

from fault_contracts.node_actions import ActionOutcome, OrderNodeAction
from fault_contracts.payload import Reason
from fault_contracts.remediation import NodePhase
from recovery_planner.domain.breaker import Breaker, Census
from recovery_planner.domain.gang_machine import IllegalMove
from recovery_planner.domain.node_care import ORDER_VALID_S, Around, Care, next_of
from recovery_planner.domain.node_life import Operation, Wanted
from recovery_planner.domain.node_machine import NodeTrigger
from recovery_planner.domain.node_remedy import NEVER_HERE
from recovery_planner.domain.node_tend import new_life

REASON = Reason(rule_id="x", sentence="x")


def care() -> Care:
    around = Around(census=Census(known=3, out=0))
    return Care(new_life("n1", NOON), breaker=Breaker(), around=around, now=NOON, policy=LADDER)


def test_a_move_is_told_once() -> None:
    draft = care()
    draft.move(NodeTrigger.HELD, REASON, by="alice")
    (effect,) = draft.life.pending
    assert (effect.payload.before, effect.payload.phase, effect.payload.by) == ("ok", "quarantined", "alice")


def test_a_move_that_does_not_exist_changes_nothing() -> None:
    draft = care()
    with pytest.raises(IllegalMove):
        draft.move(NodeTrigger.CLEAN, REASON)
    assert not draft.durable


def test_what_is_withheld_is_said_once_in_a_story() -> None:
    draft = care()
    for _ in range(2):
        draft.withhold("reset_gpu", "breaker", REASON)
    assert len(draft.life.pending) == 1
    draft.change(story=1)
    draft.withhold("reset_gpu", "breaker", REASON)
    assert len(draft.life.pending) == 2


def test_two_orders_are_two_operations_and_each_ends() -> None:
    ward = Ward()
    ward.blamed()
    ward.through((ActionOutcome.DONE, ActionOutcome.DONE))
    ids = [order.operation_id for order in ward.orders]
    assert len(set(ids)) == len(ids) == 3
    assert all((order.expires_at - NOON).total_seconds() == ORDER_VALID_S for order in ward.orders)
    assert isinstance(ward.orders[0], OrderNodeAction)


def test_refusals_that_a_repeat_does_not_change_are_those_of_the_host_role() -> None:
    assert "node_action.busy" not in NEVER_HERE
    assert "node_action.not_allowed" in NEVER_HERE


def test_what_comes_next_is_said_in_every_phase_that_waits() -> None:
    life = new_life("n1", NOON)
    for phase in set(NodePhase) - {NodePhase.OK}:
        assert next_of(replace(life, phase=phase))
    assert next_of(life) == ""


def test_what_comes_next_of_a_node_that_was_replaced() -> None:
    gone = replace(new_life("n1", NOON), phase=NodePhase.REPLACED)
    assert "no node came" in next_of(gone)
    wanted = Wanted(request_id="r", requests=2, since=NOON, ask_at=NOON)
    assert "request 2" in next_of(replace(gone, wanted=wanted))
    assert "n9 was delivered" in next_of(replace(gone, wanted=replace(wanted, came="n9")))
    assert "n9 stands" in next_of(replace(gone, successor="n9"))


def test_an_order_that_waits_to_be_repeated_says_so() -> None:
    waiting = Operation(operation_id="", action="reset_gpu", tries=1, ordered_at=NOON)
    life = replace(new_life("n1", NOON), phase=NodePhase.REMEDIATING, operation=waiting)
    assert "again" in next_of(life)
