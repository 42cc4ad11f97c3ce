"""Several sweeps of one device: named after three of five, well after three in a row, and nothing after one."""

import pytest

from health_ingest.domain.peer_outlier import Verdict
from health_ingest.domain.peer_window import Place, Standing, WindowPolicy, judge, place_from

POLICY = WindowPolicy(sweeps=3, sweeps_of=5)
KINDS = {"o": Verdict.OUTLIER, "n": Verdict.NEAR, ".": Verdict.ORDINARY, "?": Verdict.UNKNOWN}


def standing(row: str) -> Standing:
    return judge([Place(sweep_id=str(place), verdict=KINDS[kind]) for place, kind in enumerate(row)], POLICY)


@pytest.mark.parametrize("row", ["ooo", ".o.oo", "o?o.o", "ooooo", "..ooo"])
def test_three_of_five_name_a_device(row: str) -> None:
    assert standing(row) is Standing.STANDS_OUT


@pytest.mark.parametrize("row", ["", "o", "oo", "...oo", "oo.?.o", "?", "ooo?", "ooon", "??oo"])
def test_less_says_nothing(row: str) -> None:
    assert standing(row) is Standing.NOTHING


@pytest.mark.parametrize("row", ["oo...", "ooo...", "on...", "oooo?..."])
def test_three_good_sweeps_in_a_row_end_it(row: str) -> None:
    assert standing(row) is Standing.WELL


@pytest.mark.parametrize("row", ["oo..", "oo..?", "o.n..", "oo.?."])
def test_a_near_or_unknown_sweep_breaks_the_row_of_good_ones(row: str) -> None:
    assert standing(row) is Standing.NOTHING


def test_a_device_that_was_always_well_is_said_to_be_so_once() -> None:
    said = [standing("." * length) for length in range(1, 9)]
    assert said.count(Standing.WELL) == 1


def test_a_row_that_was_lost_still_ends_what_was_raised_before() -> None:
    assert standing("...") is Standing.WELL
    assert standing("?...") is Standing.WELL


def test_a_copy_of_a_sweep_counts_once() -> None:
    row = [Place(sweep_id="i/7", verdict=Verdict.OUTLIER)] * 3
    assert judge(row, POLICY) is Standing.NOTHING


def test_a_place_survives_its_text_and_a_foreign_text_is_unknown() -> None:
    place = Place(sweep_id="node 7/1/12", verdict=Verdict.NEAR)
    assert place_from(place.to_text()) == place
    assert place_from("garbage").verdict is Verdict.UNKNOWN


def test_a_window_that_cannot_be_filled_is_refused() -> None:
    with pytest.raises(ValueError, match="6 of 5 sweeps"):
        WindowPolicy(sweeps=6, sweeps_of=5)
