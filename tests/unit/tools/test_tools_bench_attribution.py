"""The command: another folder of incidents can be scored, and the exit code says what came of it."""

import json
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[3] / "tools" / "bench_attribution.py"
TITLES = "incident attribution also_attribution action also_action cause confidence basis tricky benign source why"
EVIDENCE = """incident: x1
evidence:
- {source: worker-stderr, node: n1, rank: 3, line: "ModuleNotFoundError: No module named 'flash_attn'"}
- {source: exit, node: n1, rank: 3, line: 'exitcode: 1 local_rank: 3 (pid: 4) of binary: /usr/bin/python'}
"""


def bench(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), *(str(each) for each in arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def folder_with(tmp_path: Path, attribution: str, action: str) -> Path:
    row = f"x1,{attribution},,{action},,dependency_missing,high,source_log,false,false,me,it says so"
    (tmp_path / "x1.yaml").write_text(EVIDENCE)
    (tmp_path / "truth.tsv").write_text("\t".join(TITLES.split()) + "\n" + row.replace(",", "\t") + "\n")
    return tmp_path


def test_a_set_that_is_judged_right_reaches_the_promised_figures(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "user", "dont_retry_notify_user")
    done = bench("--incidents", folder, "--only", "variants", "--seeds", 1, "--json", tmp_path / "out" / "a.json")
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads((tmp_path / "out" / "a.json").read_text())
    assert data["score"]["figures"]["all"]["macro_f1"] == 1.0
    assert len(data["variants"]) == 7


def test_a_set_that_is_judged_wrong_fails_and_says_what(tmp_path: Path) -> None:
    done = bench(folder_with(tmp_path, "hardware", "replace_node"), "--misses")
    assert done.returncode == 1
    assert "x1: want hardware dependency_missing replace_node; got user" in done.stdout


def test_a_folder_without_incidents_or_truths_is_bad_input(tmp_path: Path) -> None:
    done = bench(tmp_path)
    assert done.returncode == 2
    assert str(tmp_path) in done.stderr
    (tmp_path / "x1.yaml").write_text(EVIDENCE)
    assert "truth.tsv" in bench(tmp_path).stderr
