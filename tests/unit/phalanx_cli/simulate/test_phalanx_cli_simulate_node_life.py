"""Rungs, the gate, listed devices, and nodes that a cloud hands back under another name."""

from dataclasses import replace

import pytest
from test_phalanx_cli_simulate_engine import GPU, costs_for, named, one

from phalanx_cli.simulate.faults import DAY_S, LightShares, Need
from phalanx_cli.simulate.listing import Listing
from phalanx_cli.simulate.node_life import absence, first_rung
from phalanx_cli.simulate.returning import hand_over


def test_the_lightest_rung_comes_first_and_the_gate_sends_a_node_up() -> None:
    costs = replace(costs_for(), gate_power=1.0)
    ours = named("phalanx", costs)
    fault = one(GPU, Need.REBOOT_NODE, 0.0)
    rung = first_rung(ours, fault, None, listed=False)
    assert rung is Need.RESET_GPU
    gone = absence(ours, costs, fault, rung)
    gate_s = ours.gate_rounds * costs.gate_round_s
    assert gone.away_s == costs.reset_s + costs.reboot_s + 2 * gate_s
    assert (gone.rung, gone.found, gone.next_fault) == (Need.REBOOT_NODE, 1, None)


def test_what_the_gate_misses_goes_back_to_work() -> None:
    costs = replace(costs_for(), gate_power=0.0)
    fault = one(GPU, Need.REPLACE_NODE, 0.0)
    gone = absence(named("phalanx", costs), costs, fault, Need.RESET_GPU)
    assert (gone.next_fault, gone.next_gap_s, gone.replaced) == (fault, fault.again_s, False)


def test_a_return_that_failed_too_soon_begins_a_rung_up() -> None:
    ours, fault = named("phalanx", costs_for()), one(GPU, Need.RESTART, 0.0)
    assert first_rung(ours, fault, Need.RESET_GPU, listed=False) is Need.REBOOT_NODE
    assert first_rung(ours, fault, Need.REPLACE_NODE, listed=False) is Need.RESET_GPU  # another device by now
    assert first_rung(ours, fault, None, listed=True) is Need.REPLACE_NODE


def test_replace_always_sends_everything_to_repair() -> None:
    costs, fault = costs_for(), one(GPU, Need.RESTART, 0.0)
    always = named("replace-always", costs)
    assert absence(always, costs, fault, first_rung(always, fault, None, listed=False)).away_s == 5 * DAY_S


def test_three_strikes_within_a_week_list_a_device() -> None:
    listing = Listing()
    said = [listing.struck("device", "node", "gpu", number * DAY_S, replaces=False) for number in range(3)]
    assert said == [False, False, True]
    assert listing.is_listed("device")


def test_no_listed_device_is_let_to_work_again() -> None:
    done = hand_over(3_000, seed=1)
    assert done.listed_brought > 500
    assert done.readmitted == 0
    assert done.refused == done.listed_brought  # and nobody else was refused


def test_shares_of_light_fixes_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="light fixes"):
        LightShares().scaled(1.4)
    assert LightShares().scaled(0.5).total == pytest.approx(0.5)
