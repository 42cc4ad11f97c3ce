"""Repair and the gate of others, listed devices, and nodes that a cloud hands back under another name."""

from dataclasses import replace

import pytest
from test_phalanx_cli_simulate_engine import GPU, costs_for, one

from phalanx_cli.simulate.faults import DAY_S, LightShares, Need
from phalanx_cli.simulate.listing import Listing
from phalanx_cli.simulate.node_life import mended, repaired
from phalanx_cli.simulate.returning import hand_over


def test_without_a_gate_a_repair_hands_back_what_it_left() -> None:
    follow = one(GPU, Need.RESTART, 0.0)
    gone = repaired(0, costs_for(), one(GPU, Need.RESTART, 0.0, follow=follow, follow_gap_s=DAY_S))
    assert (gone.away_s, gone.next_fault, gone.next_gap_s, gone.found) == (5 * DAY_S, follow, DAY_S, 0)


def test_what_a_gate_finds_is_repaired_again() -> None:
    costs = replace(costs_for(), gate_power=1.0)
    follow = one(GPU, Need.RESTART, 0.0, repair_s=DAY_S)
    gone = repaired(2, costs, one(GPU, Need.RESTART, 0.0, follow=follow, follow_gap_s=DAY_S))
    assert (gone.next_fault, gone.found) == (None, 1)
    assert gone.away_s == 6 * DAY_S + 4 * costs.gate_round_s


def test_a_fix_that_is_too_light_leaves_the_fault() -> None:
    fault = one(GPU, Need.REBOOT_NODE, 0.0, follow=one(GPU, Need.RESTART, 0.0), follow_gap_s=7.0)
    assert mended(fault, Need.RESET_GPU) == (fault, fault.again_s)
    assert mended(fault, Need.REPLACE_NODE) == (fault.follow, 7.0)


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
