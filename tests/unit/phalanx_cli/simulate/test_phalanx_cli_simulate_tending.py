"""Broken nodes in the simulation, as the planner's own `tend` decides."""

from dataclasses import replace

import pytest
from test_phalanx_cli_simulate_engine import BUG, GPU, costs_for, one

from fault_contracts.cluster_policy import BreakerPolicy, ClusterPolicy, LadderPolicy
from phalanx_cli.simulate.costs import Costs
from phalanx_cli.simulate.faults import DAY_S, Fault, Need
from phalanx_cli.simulate.node_life import Absence
from phalanx_cli.simulate.tending import Tending

CARE = ClusterPolicy(ladder=LadderPolicy(rounds_min=2), breaker=BreakerPolicy(share_max=0.5))
NEVER = replace(costs_for(), gate_power=0.0)
ALWAYS = replace(costs_for(), gate_power=1.0)


def tending(costs: Costs, care: ClusterPolicy = CARE) -> Tending:
    return Tending(care, costs, known=4)


def away(nodes: Tending, fault: Fault, now_s: float = 0.0, node: str = "n0", *, listed: bool = False) -> Absence:
    """Play one story to its end."""
    step = nodes.blamed(node, f"gpu-{node}", fault, now_s, listed=listed)
    due = list(step.turns)
    while step.back is None:
        due.sort(key=lambda turn: turn.at_s)
        turn = due.pop(0)
        step = nodes.turn(node, turn.event, turn.at_s)
        due += step.turns
    return step.back


def test_the_lightest_rung_comes_first_and_the_gate_sends_a_node_up() -> None:
    gone = away(tending(ALWAYS), one(GPU, Need.REBOOT_NODE, 0.0))
    # Reset; one round finds it; reboot; two clean rounds.
    assert gone.away_s == ALWAYS.reset_s + ALWAYS.reboot_s + 3 * ALWAYS.gate_round_s
    assert (gone.next_fault, gone.found, gone.replaced) == (None, 1, False)
    assert gone.doubt_s == 7 * DAY_S


def test_what_the_gate_misses_goes_back_to_work() -> None:
    fault = one(GPU, Need.REPLACE_NODE, 0.0)
    gone = away(tending(NEVER), fault)
    assert (gone.next_fault, gone.next_gap_s, gone.replaced) == (fault, fault.again_s, False)


def test_a_return_that_failed_on_probation_begins_a_rung_up_and_a_third_story_replaces() -> None:
    nodes, fault = tending(NEVER), one(GPU, Need.RESTART, 0.0)
    gate_s = 2 * NEVER.gate_round_s
    assert away(nodes, fault).away_s == NEVER.reset_s + gate_s
    second = away(nodes, fault, DAY_S)
    assert second.away_s == NEVER.reboot_s + gate_s
    assert second.doubt_s > 13 * DAY_S  # two stories count, almost
    assert away(nodes, fault, 2 * DAY_S).replaced


def test_a_worn_part_or_a_listed_device_is_replaced_at_once() -> None:
    worn = one(replace(GPU, light=False), Need.REPLACE_NODE, 0.0)
    gone = away(tending(NEVER), worn)
    assert gone.replaced
    assert gone.away_s == worn.repair_s + 2 * NEVER.gate_round_s
    assert away(tending(NEVER), one(GPU, Need.RESTART, 0.0), listed=True).replaced


def test_the_breaker_keeps_nodes_that_are_not_sure_to_be_broken() -> None:
    """Two of four may be out: the third waits, and is let go after an hour; a device that speaks for itself is not."""
    nodes = tending(NEVER)
    worn = one(replace(GPU, light=False), Need.REPLACE_NODE, 0.0)
    for node in ("n1", "n2"):
        assert nodes.blamed(node, node, worn, 0.0, listed=False).back is None
    gone = away(nodes, one(BUG, Need.RESTART, 0.0), node="n3")
    assert (gone.away_s, gone.doubt_s) == (pytest.approx(3_600, abs=1), 0.0)
    assert nodes.refused > 0


def test_a_cluster_without_a_ladder_is_refused() -> None:
    with pytest.raises(ValueError, match="no ladder"):
        Tending(ClusterPolicy(), NEVER, known=4)
