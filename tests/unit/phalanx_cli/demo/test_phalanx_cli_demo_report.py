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
SAME = WeightsVerdict(job="demo-restarts", identical=True, sentence="sha256 ab", digest="ab")


def result(*problems: str, phases: PhaseTimes = PHASES, replaced: frozenset[int] | None = None) -> FaultResult:
    return FaultResult(
        fault=Fault.RAISE_IN_PLACE, injected="raise", truth="unknown, python_exception",
        verdict="unknown, python_exception", suspect="rank 1, node-b", reasons=(), phases=phases,
        injected_to_seen_s=0.043, injected_to_resumed_s=0.81, replaced=replaced, outcome="recovered", problems=problems,
    )  # fmt: skip


def report(
    *faults: FaultResult, weights: tuple[WeightsVerdict, ...] = (SAME,), problems: tuple[str, ...] = ()
) -> Report:
    return Report(faults=faults, weights=weights, problems=problems, took_s=45, logs=Path("/logs"))


def shown(of: Report, *, width: int = 80) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(render(of))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def rows(text: str) -> list[list[str]]:
    """The rows of both tables."""
    return [line.split() for line in text.splitlines() if line.strip().startswith("raise-in-place ")]


def test_the_tables_show_phases_and_findings_on_eighty_columns() -> None:
    text = shown(report(result()))
    phases, findings = rows(text)
    assert phases == ["raise-in-place", "21", "180", "0", "100", "455", "756", "810", "3"]
    assert findings == [
        "raise-in-place", "43", "rank", "1,", "node-b", "unknown,", "python_exception", "yes", "recovered"
    ]  # fmt: skip
    assert "demo-restarts: weights identical to the unfailed run: yes (sha256 ab)" in text.splitlines()
    assert "everything held; 45 s" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_phase_that_did_not_happen_is_a_dash_and_not_a_zero() -> None:
    phases, _ = rows(shown(report(result(phases=PhaseTimes(stop_s=0.1)))))
    assert phases == ["raise-in-place", "–", "100", "–", "–", "–", "–", "810", "–"]


def test_a_wrong_suspect_is_not_right() -> None:
    _, findings = rows(shown(report(result("the suspect is rank 0, node-a"))))
    assert findings[-2:] == ["no", "recovered"]


def test_who_got_a_new_process_is_told_where_it_is_known() -> None:
    assert "new process after raise-in-place: none" in shown(report(result(replaced=frozenset())))
    assert "new process after raise-in-place: rank 3" in shown(report(result(replaced=frozenset({3}))))
    assert "new process" not in shown(report(result(replaced=None)))


def test_one_problem_anywhere_and_not_everything_held() -> None:
    assert report(result()).held
    assert report(result(), weights=()).held
    assert not report(result("the verdict is wrong")).held
    assert not report(result(), problems=("a dead letter",)).held
    for identical in (False, None):
        other = WeightsVerdict(job="demo-in-place", identical=identical, sentence="s")
        assert not report(result(), weights=(SAME, other)).held
        assert json.loads(as_json(report(result(), weights=(SAME, other))))["weights_identical"] is identical
    text = shown(report(result("the verdict is wrong")), width=200)
    assert "did not hold: raise-in-place: the verdict is wrong" in text
    assert "not everything held" in text


def test_json_carries_the_same_figures() -> None:
    data = json.loads(as_json(report(result(replaced=frozenset({3})))))
    assert data["held"] is True
    assert data["weights_identical"] is True
    assert data["weights"] == [{"job": "demo-restarts", "identical": True, "sha256": "ab"}]
    (fault,) = data["faults"]
    assert fault["phases"]["total_s"] == 0.756
    assert fault["suspect"] == "rank 1, node-b"
    assert fault["injected_to_seen_s"] == 0.043
    assert fault["ranks_replaced"] == [3]
    assert json.loads(as_json(report(result(), weights=())))["weights_identical"] is None
