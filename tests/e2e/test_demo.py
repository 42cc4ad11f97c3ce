"""`phalanx demo` as a user runs it, with fewer faults: real servers, services, agents, torch and kills."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from phalanx_cli.drill.fake_library import NoCompiler, find_compiler

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def run_demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-P", "-m", "phalanx_cli.main", "demo", "--data-dir", str(folder), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=840, check=False)


def left_behind(folder: Path) -> list[str]:
    """Command lines of processes that work in this folder."""
    mark, found = os.fsencode(str(folder)), []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and mark in (command := (entry / "cmdline").read_bytes()):
                found.append(command.decode(errors="replace"))
        except OSError:
            continue  # it ended meanwhile
    return found


def test_every_fault_is_recovered_from_bit_for_bit_and_a_bug_ends_its_job(tmp_path: Path) -> None:
    done = run_demo(
        tmp_path,
        "--faults",
        "kill-rank,stop-rank,nan-loss,raise-in-place,kill-in-place,bug",
        "--steps",
        "240",
        "--json",
    )
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout)
    assert result["held"] is True
    assert result["weights_identical"] is True
    assert [weights["job"] for weights in result["weights"]] == ["demo-restarts", "demo-in-place"]
    killed, stopped, nan, raised_in_place, killed_in_place, bug = result["faults"]
    assert killed["verdict"] == "platform, process_killed"
    assert killed["outcome"] == "recovered"
    assert killed["phases"]["total_s"] > 0
    assert killed["suspect"].startswith("rank 3, node-")
    assert killed["injected_to_seen_s"] > 0
    assert killed["ranks_replaced"] == [0, 1, 2, 3]
    assert stopped["verdict"] == "platform, process_stopped"
    assert stopped["suspect"].startswith("rank 2, node-")
    assert nan["verdict"] == "unknown, log_rule"
    assert nan["suspect"].startswith("rank 0, node-")
    assert any("loss-is-not-finite" in reason for reason in nan["reasons"])
    assert raised_in_place["ranks_replaced"] == []
    assert raised_in_place["verdict"] == "unknown, python_exception"
    assert killed_in_place["ranks_replaced"] == [3]
    assert killed_in_place["verdict"] == "platform, process_killed"
    assert bug["verdict"] == "user, repeated_exception"
    assert bug["outcome"] == "failed_user"
    assert "no further restart" in done.stderr
    logs = Path(result["logs"])
    assert (logs / "unfailed.log").is_file()
    assert list(logs.glob("servers/nats-server.log"))
    assert not (logs.parent / "work").exists(), "checkpoints go unless --keep is given"
    assert left_behind(tmp_path) == []


def test_a_sick_gpu_loses_its_work_and_a_programs_fault_costs_no_node(tmp_path: Path) -> None:
    try:
        find_compiler()
    except NoCompiler as error:
        pytest.skip(str(error))
    done = run_demo(tmp_path, "--faults", "xid-31,xid-79,hot-gpu", "--json")
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout)
    assert result["held"] is True
    assert result["weights_identical"] is True
    verdicts = {fault["fault"]: fault["verdict"] for fault in result["faults"]}
    assert verdicts["xid-31"] == "user, illegal_memory_access"
    # The kernel's word or the driver's, whichever the judge saw: both name the GPU, which the demo holds against it.
    assert verdicts["xid-79"] in ("hardware, gpu_fell_off_bus", "hardware, gpu_lost")
    assert verdicts["hot-gpu"] == "hardware, gpu_thermal"
    assert "is held back: gpu GPU-" in done.stderr, "the node that comes back with its broken GPU gets no ranks"
    assert left_behind(tmp_path) == []


def test_two_faults_at_once_and_a_planner_killed_in_mid_recovery_end_in_one_gang(tmp_path: Path) -> None:
    done = run_demo(tmp_path, "--faults", "two-at-once,kill-planner", "--steps", "240", "--json")
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout)
    assert result["held"] is True
    assert result["weights_identical"] is True
    both, planner = result["faults"]
    assert both["verdict"] in ("platform, process_killed", "platform, agent_lost")
    assert both["outcome"] == planner["outcome"] == "recovered"
    assert planner["verdict"] == "platform, process_killed"
    assert "kill -9 of recovery-planner" in done.stderr
    assert "finished what the first one began" in done.stderr
    assert left_behind(tmp_path) == []


def test_a_poisoned_checkpoint_is_stepped_over_and_a_gang_without_a_spare_shrinks_and_grows(tmp_path: Path) -> None:
    done = run_demo(tmp_path, "--faults", "poisoned-checkpoint,no-spare", "--json")
    assert done.returncode == 0, done.stderr[-4000:]
    result = json.loads(done.stdout)
    assert result["held"] is True
    assert result["weights_identical"] is True
    poisoned, no_spare = result["faults"]
    assert poisoned["verdict"] in ("user, nan_loss", "user, repeated_exception")
    assert no_spare["verdict"] == "platform, agent_lost"
    assert poisoned["outcome"] == no_spare["outcome"] == "recovered"
    assert "is stepped over" in done.stderr
    assert "with 1 nodes instead of 2" in done.stderr
    assert "with 2 nodes instead of 1" in done.stderr
    assert left_behind(tmp_path) == []


def test_options_that_make_no_sense_are_refused_at_once_with_one_line(tmp_path: Path) -> None:
    for arguments, wanted in ((("--faults", "flood"), "no fault 'flood'"), (("--steps", "5"), "too short")):
        done = run_demo(tmp_path / "never", *arguments)
        assert done.returncode == 2
        assert wanted in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
        assert not (tmp_path / "never").exists()
