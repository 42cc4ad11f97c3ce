"""The table of a node's moves: complete enough that every node can come back, and nothing moves beside it."""

import pytest

from fault_contracts.remediation import NodePhase
from recovery_planner.domain.gang_machine import IllegalMove
from recovery_planner.domain.node_machine import NODE_TABLE, NodeTrigger, node_target


def test_every_phase_is_left_and_every_trigger_moves() -> None:
    assert {phase for phase, _ in NODE_TABLE} == set(NodePhase)
    assert {trigger for _, trigger in NODE_TABLE} == set(NodeTrigger)


def reachable(phase: NodePhase) -> set[NodePhase]:
    found, new = {phase}, {phase}
    while new:
        new = {after for (before, _), after in NODE_TABLE.items() if before in new} - found
        found |= new
    return found


@pytest.mark.parametrize("phase", list(NodePhase))
def test_from_every_phase_a_node_can_come_back(phase: NodePhase) -> None:
    assert NodePhase.OK in reachable(phase)


def test_nothing_is_done_to_a_node_that_was_not_drained() -> None:
    before = {phase for (phase, _), after in NODE_TABLE.items() if after is NodePhase.REMEDIATING}
    assert before == {NodePhase.DRAINING, NodePhase.REMEDIATING, NodePhase.VALIDATING}


def test_no_node_works_after_an_action_without_the_gate_or_a_person() -> None:
    ways = {
        trigger
        for (phase, trigger), after in NODE_TABLE.items()
        if after in (NodePhase.OK, NodePhase.PROBATION) and phase in (NodePhase.REMEDIATING, NodePhase.VALIDATING)
    }
    assert ways == {NodeTrigger.CLEAN, NodeTrigger.FREED}


def test_a_move_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(IllegalMove, match="no move for clean"):
        node_target(NodePhase.OK, NodeTrigger.CLEAN)
