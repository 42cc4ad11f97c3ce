"""`phalanx simulate`: table, JSON, chart, and what it refuses."""

import json
from pathlib import Path
from xml.etree import ElementTree

from typer.testing import CliRunner

from phalanx_cli.commands.app import app

RUN = CliRunner()
SMALL = ["simulate", "--gpus", "512", "--days", "20", "--seeds", "2"]


def test_compare_shows_all_policies_and_writes_the_chart(tmp_path: Path) -> None:
    chart = tmp_path / "lost.svg"
    done = RUN.invoke(app, [*SMALL, "--compare", "--chart", str(chart), "--gates", "--returns", "200"])
    assert done.exit_code == 0, done.output
    for name in ("restart-all-600", "restart-all-1800", "requeue", "hyperpod-like", "replace-always", "phalanx"):
        assert f"\n{name} " in done.output
    assert "gate finds" in done.output
    assert "listed devices let to work: 0" in done.output
    root = ElementTree.fromstring(chart.read_text())
    assert root.tag.endswith("svg")


def test_json_holds_every_assumption_and_is_the_same_each_time() -> None:
    said = [RUN.invoke(app, [*SMALL, "--format", "json"]).output for _ in range(2)]
    assert said[0] == said[1]
    result = json.loads(said[0])
    (ours,) = result["policies"]
    assert ours["sources"]
    assert ours["recovery"]["confirming_retries"] == 1
    assert 0.9 < ours["result"]["ettr"]["mean"] < 1
    assert result["costs"]["gate_power"] == 0.7


def test_a_policy_of_ones_own_is_what_is_played(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("restarts_max: 0\nwindow_s: 3600\n")
    done = RUN.invoke(app, [*SMALL, "--policy", str(file), "--format", "json"])
    (ours,) = json.loads(done.output)["policies"]
    assert ours["result"]["given_up"]["mean"] == ours["result"]["interruptions"]["mean"]


def test_what_cannot_be_used_is_refused_with_the_reason(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("nonsense: 1\n")
    for arguments, reason in (
        (["--policy", str(bad)], "bad.yaml:1: unknown field nonsense"),
        (["--rates", "mine"], "no rate is called mine"),
        (["--trace", str(bad)], "is not JSON"),
        (["--trace", str(tmp_path / "none")], "cannot be read"),
    ):
        done = RUN.invoke(app, [*SMALL, *arguments])
        assert done.exit_code == 2
        assert reason in done.output
