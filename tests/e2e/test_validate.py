"""`phalanx validate` with real gloo members: who is bad is named, on one machine and over two nodes."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from agent_process import AgentProcess

from node_agent.adapters.free_port import ReservedPort

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
SMALL = ["--device", "cpu", "--matmul-size", "64", "--memory-mb", "4", "--device-time", "0", "--size-mb", "1"]

NEVER_SLOW = ["--slow-ratio", "0.0001"]
"""Four processes on a busy machine have any speed."""


def command(*flags: str) -> list[str]:
    return ["-m", "phalanx_cli.main", "validate", *SMALL, *flags]


async def validated(tmp_path: Path, *flags: str) -> tuple[int, dict[str, Any]]:
    """Exit code and report."""
    report = tmp_path / "report.json"
    async with AgentProcess(command("--report", str(report), *flags), cwd=tmp_path) as process:
        code = await process.exit_code(timeout_s=350)
        assert report.exists(), process.text
    told: dict[str, Any] = json.loads(report.read_text())
    return code, told


def named(report: dict[str, Any], check: str) -> dict[int, str]:
    """Rank to rule of every bad line of a check."""
    return {int(c["subject"].split()[1]): c["rule_id"] for c in report["checks"] if c["check"] == check and is_bad(c)}


def is_bad(check: dict[str, Any]) -> bool:
    return bool(check["health"] == "bad")


@pytest.mark.asyncio
async def test_members_that_compute_and_exchange_wrong_are_named(tmp_path: Path) -> None:
    drills = ["--drill", "corrupt:2", "--drill", "matmul:1", *NEVER_SLOW]
    code, report = await validated(tmp_path, "--nproc-per-node", "4", "--repeats", "2", *drills)
    assert (code, report["verdict"]) == (1, "fail")
    assert named(report, "matmul_float32") == {1: "validation.matmul_float32"}
    assert named(report, "pairs") == {2: "validation.fails_with_partners"}
    assert any(is_bad(check) for check in report["checks"] if check["check"] == "all_reduce")
    assert len(report["members"]) == 4


@pytest.mark.asyncio
async def test_members_that_die_or_hang_are_named_and_nothing_is_left(tmp_path: Path) -> None:
    drills = ["--drill", "die:0", "--drill", "hang:3", *NEVER_SLOW]
    drills += ["--group-limit", "20", "--run-id", f"run-{os.getpid()}"]
    code, report = await validated(tmp_path, "--nproc-per-node", "4", "--repeats", "1", *drills)
    assert code == 1
    assert named(report, "pairs") == {0: "validation.member_died", 3: "validation.member_silent"}
    assert "SIGKILL" in next(c["sentence"] for c in report["checks"] if c["rule_id"] == "validation.member_died")
    assert left_of(f"run-{os.getpid()}") == []


def left_of(run_id: str) -> list[Path]:
    """Members that are still there."""
    return [path for path in Path("/proc").glob("[0-9]*/cmdline") if f"--run={run_id}".encode() in read(path)]


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""  # ended meanwhile


@pytest.mark.asyncio
async def test_two_nodes_pass_with_one_verdict(tmp_path: Path) -> None:
    reserved = ReservedPort()
    port = reserved.number
    reserved.close()
    flags = ["--nnodes", "2", "--nproc-per-node", "2", "--master-addr", "127.0.0.1", "--master-port", str(port)]
    flags += [*NEVER_SLOW, "--json"]
    # Numbers of the other node are wrong on purpose: its own finding has to reach both reports.
    expects = [["--gpus", "0"], ["--nics", "99"]]
    async with (
        AgentProcess(command(*flags, "--node-rank", "0", "--node-id", "a", *expects[0]), cwd=tmp_path) as first,
        AgentProcess(command(*flags, "--node-rank", "1", "--node-id", "b", *expects[1]), cwd=tmp_path) as second,
    ):
        codes = await asyncio.gather(first.exit_code(timeout_s=350), second.exit_code(timeout_s=350))
        reports = [json.loads(process.lines[-1]) for process in (first, second)]
    assert codes == [1, 1]
    assert reports[0] == reports[1]
    bad = [check for check in reports[0]["checks"] if is_bad(check)]
    assert [(check["check"], check["subject"]) for check in bad] == [("nic_count", "b")]
    assert {member["node_id"] for member in reports[0]["members"]} == {"a", "b"}
    assert next(c for c in reports[0]["checks"] if c["check"] == "pairs")["values"]["good"] == 6
