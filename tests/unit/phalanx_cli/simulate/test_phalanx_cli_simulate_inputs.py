"""Traces, draws, costs and measurements that are read."""

import json
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pytest

from phalanx_cli.simulate.costs import MeasurementRefused, floors, read_measured
from phalanx_cli.simulate.draws import Draws
from phalanx_cli.simulate.faults import LightShares, Need
from phalanx_cli.simulate.hbd_trace import TraceRefused, read_recording, recorded_trace


def event(node: str, day: float, kind: str, name: str = "GPU") -> dict[str, Any]:
    return {
        "node_id": node,
        "event_time": day,
        "event_type": kind,
        "fault_type": {"Level": "Hardware Failure", "Class": name, "Desc": "x"},
    }


def written(tmp_path: Path, content: Any) -> Path:
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(content))
    return file


def test_arrivals_have_the_mean_and_the_variation_asked_for() -> None:
    draws = Draws("arrivals")
    gaps = [draws.gap(10.0, 1.76) for _ in range(200_000)]
    assert fmean(gaps) == pytest.approx(10.0, rel=0.03)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(1.76, rel=0.05)
    with pytest.raises(ValueError, match="variation"):
        draws.gap(10.0, 0.5)


def test_starts_are_paired_with_ends_and_repeats_with_what_they_follow(tmp_path: Path) -> None:
    events = []
    for number in range(40):
        node, day = f"n{number}", float(number)
        events += [event(node, day, "fault_start"), event(node, day + 0.5, "fault_end")]
        events += [event(node, day + 1.0, "fault_start"), event(node, day + 1.25, "fault_end")]
    recording = read_recording(written(tmp_path, events))
    assert len(recording.faults) == 80
    assert recording.node_days_down == pytest.approx(40 * 0.75)
    trace = recorded_trace(recording, machines=50, seed=1, shares=LightShares())
    followed = [fault for fault in trace if fault.follow is not None]
    assert len(trace) + len(followed) == 80
    assert 30 <= len(followed) <= 40  # nine in ten are no chance
    assert all(fault.follow_gap_s == pytest.approx(0.5 * 86_400) for fault in followed)
    with pytest.raises(ValueError, match="only 10 machines"):
        recorded_trace(recording, machines=10, seed=1, shares=LightShares())


def test_shortest_first_makes_the_shortest_repairs_the_light_ones(tmp_path: Path) -> None:
    events = []
    for number in range(20):
        events += [event(f"n{number}", 1.0, "fault_start"), event(f"n{number}", 2.0 + number, "fault_end")]
    recording = read_recording(written(tmp_path, events))
    trace = recorded_trace(recording, machines=20, seed=1, shares=LightShares().scaled(0.5), shortest_first=True)
    light = [fault.repair_s for fault in trace if fault.need is not Need.REPLACE_NODE]
    heavy = [fault.repair_s for fault in trace if fault.need is Need.REPLACE_NODE]
    assert len(light) == len(heavy) == 10
    assert max(light) < min(heavy)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({}, "must be a list"),
        ([event("n", 1, "fault_end")], "did not start"),
        ([{"event_time": 1}], "not of this form"),
    ],
)
def test_a_trace_that_is_none_is_refused(tmp_path: Path, content: Any, said: str) -> None:
    with pytest.raises(TraceRefused, match=said):
        read_recording(written(tmp_path, content))


def test_floors_are_the_published_ones_and_never_below_the_smallest() -> None:
    assert floors(16_384) == (65.0, pytest.approx(768 / 10.87), 768.0)
    assert floors(4_096)[0] == 51.0
    assert floors(64)[0] == 46.0
    assert floors(100_000)[0] > 65.0


def test_measurements_are_taken_over_the_floor(tmp_path: Path) -> None:
    cells = {"phalanx": 0.3, "torchrun": 7.0, "floor": 0.2}
    figures = {f"{who} kill": {"first step": {"median_s": seconds}} for who, seconds in cells.items()}
    measured = read_measured(written(tmp_path, {"figures": figures}))
    assert measured.phalanx_over_floor_s == pytest.approx(0.1)
    assert measured.torchrun_over_floor_s == pytest.approx(6.8)
    with pytest.raises(MeasurementRefused, match="needs the cells"):
        read_measured(written(tmp_path, {"figures": {}}))
