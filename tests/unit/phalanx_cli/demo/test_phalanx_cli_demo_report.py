"""The demo's tables, its JSON, and when everything held."""

import io
import json
from pathlib import Path

from rich.console import Console

from fault_contracts.recovery import PhaseTimes
from phalanx_cli.demo.judgement import FaultResult
from phalanx_cli.demo.report import Report, as_json, render
from phalanx_cli.demo.scenario import Fault
from phalanx_cli.demo.weights import WeightsVerdict

PHASES = PhaseTimes(
    detect_s=0.021, stop_s=0.18, plan_s=0.0, start_s=0.1, first_step_s=0.455, total_s=0.756, steps_lost=3
)
SAME = WeightsVerdict(identical=True, sentence="sha256 ab", digest="ab")


def result(*problems: str, phases: PhaseTimes = PHASES) -> FaultResult:
    return FaultResult(
        fault=Fault.KILL_RANK, injected="kill", truth="platform, process_killed", verdict="platform, process_killed",
        reasons=(), phases=phases, injected_to_resumed_s=0.81, outcome="recovered", problems=problems,
    )  # fmt: skip


def report(*faults: FaultResult, weights: WeightsVerdict | None = SAME, problems: tuple[str, ...] = ()) -> Report:
    return Report(faults=faults, weights=weights, problems=problems, took_s=45, logs=Path("/logs"))


def shown(of: Report, *, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(render(of))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_shows_each_phase_in_milliseconds_on_eighty_columns() -> None:
    lines = shown(report(result())).splitlines()
    row = next(line for line in lines if "kill-rank" in line)
    assert row.split() == ["kill-rank", "21", "180", "0", "100", "455", "756", "810", "3"]
    assert "weights identical to the unfailed run: yes (sha256 ab)" in lines
    assert "everything held; 45 s" in lines
    assert max(map(len, lines)) <= 80


def test_a_phase_that_did_not_happen_is_a_dash_and_not_a_zero() -> None:
    row = next(
        line for line in shown(report(result(phases=PhaseTimes(stop_s=0.1)))).splitlines() if "kill-rank" in line
    )
    assert row.split() == ["kill-rank", "–", "100", "–", "–", "–", "–", "810", "–"]


def test_one_problem_anywhere_and_not_everything_held() -> None:
    assert report(result()).held
    assert report(result(), weights=None).held
    assert not report(result("the verdict is wrong")).held
    assert not report(result(), problems=("a dead letter",)).held
    for identical in (False, None):
        assert not report(result(), weights=WeightsVerdict(identical=identical, sentence="s")).held
    text = shown(report(result("the verdict is wrong")), width=200)
    assert "did not hold: kill-rank: the verdict is wrong" in text
    assert "not everything held" in text


def test_json_carries_the_same_figures() -> None:
    data = json.loads(as_json(report(result())))
    assert data["held"] is True
    assert data["weights_identical"] is True
    assert data["faults"][0]["phases"]["total_s"] == 0.756
