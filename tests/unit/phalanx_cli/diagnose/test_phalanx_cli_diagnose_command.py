"""`phalanx diagnose`: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from diagnose_rig import BOOM, XID, rig_diagnose, rig_json, rig_rules
from typer.testing import CliRunner

from phalanx_cli.commands.app import app
from phalanx_cli.diagnose.evidence_reader import EvidenceReader

KEYS = {"attribution", "cause", "culprit", "confidence", "action", "reasons", "alternatives"}


def logs(folder: Path, text: str = f"rigstep 1\n{BOOM}\n") -> Path:
    path = folder / "logs"
    path.mkdir()
    (path / "rank_3.err").write_text(text)
    return path


def test_a_verdict_for_a_person(tmp_path: Path) -> None:
    path = logs(tmp_path)
    (path / "events.txt").write_text(
        "LAST SEEN   TYPE      REASON    OBJECT     MESSAGE\n5m  Warning  Evicted  pod/x  y\n"
    )
    result = rig_diagnose(tmp_path, "--node", "n4", path)
    assert result.exit_code == 0
    said = result.stdout
    for part in (
        "Verdict  user: rig_boom, ",
        "Culprit  rank 3, node n4",
        "Do       dont_retry_notify_user: do not start it again as it is",
        "The fault is with the job itself",
        "Why\n  - rank 3 on n4 raised it: RigError: boom  [decisive for it, +6.0, user.rig_boom]",
        f"{path}/rank_3.err:2  RigError: boom",
        "What speaks against it\n  - something was evicted  [weak against it, -0.5, user.rig_boom]",
        f"{path}/events.txt:2  5m  Warning  Evicted",
        "What would change the verdict\n  - the first traceback",
        "What was read\n  2 files, 4 lines: 1 Kubernetes events, table, 1 log of a rank",
    ):
        assert part in said


def test_json_has_exactly_the_fields_of_a_verdict(tmp_path: Path) -> None:
    report = rig_json(tmp_path, logs(tmp_path))
    assert set(report) == KEYS
    assert (report["attribution"], report["cause"]) == ("user", "rig_boom")
    assert report["action"] == "dont_retry_notify_user"
    assert report["confidence"] > 0.9
    assert report["culprit"] == {"node_id": None, "rank": 3, "gpu_uuid": None, "process": None}
    [reason] = [each for each in report["reasons"] if each["weight"] == 6]
    assert set(reason) == {"rule_id", "sentence", "weight", "evidence"}
    assert reason["evidence"] == [
        {"file": f"{tmp_path}/logs/rank_3.err", "line": 2, "text": BOOM, "finding": "rig_boom"}
    ]


def test_other_hypotheses_are_alternatives(tmp_path: Path) -> None:
    path = logs(tmp_path)
    (path / "dmesg.txt").write_text(f"[    1.000000] {XID}\n")
    report = rig_json(tmp_path, path)
    other = next(each for each in report["alternatives"] if each["cause"] == "rig_boom")
    assert set(other) == {"attribution", "cause", "confidence", "action", "why"}


def test_counter_evidence_has_a_negative_weight(tmp_path: Path) -> None:
    path = logs(tmp_path, f"{BOOM}\nEvicted\n")
    report = rig_json(tmp_path, path)
    assert [each["weight"] for each in report["reasons"] if each["sentence"] == "something was evicted"] == [-0.5]
    assert report["culprit"]["rank"] == 3


def test_several_paths_are_one_incident_unless_each_is_wanted(tmp_path: Path) -> None:
    one, other = logs(tmp_path), tmp_path / "healthy.log"
    other.write_text("rigstep 7\n")
    assert set(rig_json(tmp_path, one, other)) == KEYS
    result = rig_diagnose(tmp_path, "--each", "--format", "json", one, other)
    first, second = [json.loads(line) for line in result.stdout.splitlines()]
    assert (first["path"], first["cause"]) == (str(one), "rig_boom")
    assert (second["path"], second["cause"]) == (str(other), "no_evidence")
    assert set(first) == KEYS | {"path"}
    assert result.exit_code == 3


def test_each_for_a_person_names_the_path(tmp_path: Path) -> None:
    one = logs(tmp_path)
    assert rig_diagnose(tmp_path, "--each", one).stdout.startswith(f"{one}\nVerdict")


def test_stdin(tmp_path: Path) -> None:
    report = rig_json(tmp_path, "-", "--rank", 5, "--node", "n4", stdin=BOOM.encode())
    assert (report["culprit"]["rank"], report["culprit"]["node_id"]) == (5, "n4")
    assert report["reasons"][0]["evidence"][0]["file"] == "stdin"


def test_a_healthy_log_has_no_failure(tmp_path: Path) -> None:
    path = logs(tmp_path, "rigstep 1\nrigstep 2\n")
    result = rig_diagnose(tmp_path, path)
    assert result.exit_code == 3
    assert "Verdict  no failure found" in result.stdout
    assert rig_json(tmp_path, path)["action"] == "wait_or_ignore"


def test_an_unknown_failure_shows_its_lines(tmp_path: Path) -> None:
    result = rig_diagnose(tmp_path, logs(tmp_path, "ERROR: the zorkmid overflowed\n"))
    assert result.exit_code == 3
    assert "Error lines that no rule knows (1)" in result.stdout
    assert "the zorkmid overflowed" in result.stdout


@pytest.mark.parametrize("name", ["gone", "empty", "binary"])
def test_nothing_readable(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "binary").write_bytes(b"\x7fELF" + bytes(range(256)))
    result = rig_diagnose(tmp_path, tmp_path / name)
    assert result.exit_code == 2
    assert "phalanx diagnose: nothing to read in " in result.stderr
    assert {"gone": "no such file", "empty": "the folder is empty", "binary": "binary"}[name] in result.stderr
    assert result.stdout == ""


def test_a_missing_path_beside_a_good_one_is_told_in_the_report(tmp_path: Path) -> None:
    path = logs(tmp_path)
    result = rig_diagnose(tmp_path, path, tmp_path / "gone")
    assert result.exit_code == 0
    assert f"skipped 1: no such file or folder: {tmp_path / 'gone'}" in result.stdout
    as_json = rig_diagnose(tmp_path, "--format", "json", path, tmp_path / "gone")
    assert "no such file or folder" in as_json.stderr
    assert "no such file" not in as_json.stdout


def test_bad_rules_are_told_with_file_and_line(tmp_path: Path) -> None:
    rules = rig_rules(tmp_path)
    (rules / "signatures/rig.yaml").write_text("signatures:\n- id: x.y\n  pattern: '('\n")
    result = CliRunner().invoke(app, ["diagnose", "--rules", str(rules), str(logs(tmp_path))])
    assert result.exit_code == 2
    assert "rig.yaml:2" in result.stderr


def test_a_log_cannot_move_the_cursor_or_write_markup(tmp_path: Path) -> None:
    path = logs(tmp_path, f"{BOOM} \x1b[31m [bold red]loud[/] \x07 \u202e\n")
    for arguments in ((path,), ("--list-findings", path)):
        said = rig_diagnose(tmp_path, *arguments).stdout
        assert "[bold red]loud[/]" in said
        assert not {"\x1b", "\x07", "\u202e"} & set(said)


def test_findings_are_listed_instead(tmp_path: Path) -> None:
    path = logs(tmp_path)
    said = rig_diagnose(tmp_path, "--list-findings", path).stdout
    assert f"{path}/rank_3.err:2  rig_boom [cause] rank 3: RigError: boom" in said
    rows = [
        json.loads(line)
        for line in rig_diagnose(tmp_path, "--list-findings", "--format", "json", path).stdout.splitlines()
    ]
    assert {"rig_boom", "rig_step"} <= {row["kind"] for row in rows}


def test_the_world_size_is_a_finding(tmp_path: Path) -> None:
    said = rig_diagnose(tmp_path, "--list-findings", "--world-size", 64, logs(tmp_path)).stdout
    assert "world_size [context]" in said


def test_an_interruption_says_what_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(reader: EvidenceReader) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(EvidenceReader, "findings", interrupted)
    result = rig_diagnose(tmp_path, logs(tmp_path))
    assert result.exit_code == 130
    assert "interrupted, no verdict; 1 files, 2 lines" in result.stderr


def test_help_teaches(tmp_path: Path) -> None:
    said = CliRunner().invoke(app, ["diagnose", "--help"]).output
    for part in (
        "kubectl logs -l job=llm --prefix | phalanx diagnose -",
        "--list-findings",
        "Exit code 0 with a verdict",
    ):
        assert part in said
