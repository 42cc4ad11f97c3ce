"""`phalanx run` on one machine, everything real: servers, services, nursery, torch, kills."""

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_process import AgentProcess

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

RUN = ["-m", "phalanx_cli.main", "run"]
START_S = 120.0
"""Four imports of torch's libraries on two busy cores were seen to take 40 s."""


def processes_of_run(folder: Path) -> set[int]:
    """Agent, servers, services and ranks: every process with the run's folder in its command, environment or cwd."""
    mark = os.fsencode(str(folder))
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            named = mark in (entry / "cmdline").read_bytes() or mark in (entry / "environ").read_bytes()
            if named or (entry / "cwd").readlink().is_relative_to(folder):
                found.add(int(entry.name))
        except OSError:
            continue
    return found


def log_files(folder: Path) -> list[tuple[str, ...]]:
    return sorted(path.relative_to(folder).parts[-3:] for path in folder.glob(".phalanx/logs/*/*/*/*/stdout.log"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    path = tmp_path / "small"
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(path)]
    mounted = subprocess.run(command, check=False, capture_output=True)
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small disk here: {mounted.stderr.decode().strip()}")
    yield path
    subprocess.run(["umount", "-l", str(path)], check=True)


async def nothing_left(folder: Path, *, within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while processes_of_run(folder):  # noqa: ASYNC110 - the kernel tells nobody when strangers end
            await asyncio.sleep(0.05)


@pytest.mark.asyncio
async def test_an_unmodified_ddp_script_trains_and_survives_kill_9_of_a_rank(tmp_path: Path, ddp_script: Path) -> None:
    async with AgentProcess([*RUN, "--nproc-per-node", "4", "train.py", "150"], cwd=tmp_path) as run:
        line = await run.wait_line("rank 2 pid", timeout_s=START_S)
        await run.wait_line("rank 0 pid", count=2)
        os.kill(int(re.search(r"pid (\d+)", line)[1]), signal.SIGKILL)  # type: ignore[index]
        await run.wait_line("phalanx: rank 2 died (SIGKILL)")
        await run.wait_line("phalanx: restarted ranks 0-3 of 4")
        await run.wait_line("step 10 restart 1", count=4)
        assert await run.exit_code(timeout_s=90) == 0
    for rank in range(4):
        assert f"[{rank}]: rank {rank} done" in run.lines
    assert "phalanx: job succeeded" in run.lines
    assert run.text.count("phalanx: restarted") == 1
    assert log_files(tmp_path) == [(f"attempt_{v}", str(r), "stdout.log") for v in (1, 2) for r in range(4)]
    await nothing_left(tmp_path)


@pytest.mark.asyncio
async def test_kill_9_of_the_run_leaves_no_server_no_service_and_no_rank(tmp_path: Path) -> None:
    (tmp_path / "sleep.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(600)\n")
    async with AgentProcess([*RUN, "--no-standby", "--nproc-per-node", "2", "sleep.py"], cwd=tmp_path) as run:
        await run.wait_line("]: up", count=2, timeout_s=START_S)
        assert len(processes_of_run(tmp_path)) >= 8, "the agent, two servers, three services, two ranks"
        run.signal(signal.SIGKILL)
        await run.exit_code()
        await nothing_left(tmp_path)


@pytest.mark.asyncio
async def test_sigterm_stops_everything_in_order_with_143(tmp_path: Path) -> None:
    (tmp_path / "sleep.py").write_text(
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('saved', flush=True), sys.exit(0)))\n"
        "print('up', flush=True)\ntime.sleep(600)\n"
    )
    async with AgentProcess([*RUN, "--no-standby", "--nproc-per-node", "2", "sleep.py"], cwd=tmp_path) as run:
        await run.wait_line("]: up", count=2, timeout_s=START_S)
        run.signal(signal.SIGTERM)
        assert await run.exit_code(timeout_s=30) == 143
        assert sum("saved" in line for line in run.lines) == 2, "ranks get SIGTERM and the time to act on it"
    await nothing_left(tmp_path)


@pytest.mark.asyncio
async def test_a_script_that_does_nothing_is_a_success(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("")
    async with AgentProcess([*RUN, "--no-standby", "empty.py"], cwd=tmp_path) as run:
        assert await run.exit_code(timeout_s=START_S) == 0
    assert "phalanx: job succeeded" in run.lines


@pytest.mark.asyncio
async def test_a_bug_that_repeats_ends_the_job_with_the_users_verdict(tmp_path: Path) -> None:
    (tmp_path / "bug.py").write_text("import os\ndef load():\n    raise ValueError('no such shard')\nload()\n")
    argv = [*RUN, "--no-standby", "--nproc-per-node", "2", "--max-restarts", "9", "bug.py"]
    async with AgentProcess(argv, cwd=tmp_path) as run:
        assert await run.exit_code(timeout_s=START_S) == 1
    assert "fault is in the training script" in run.text
    assert "ValueError: no such shard" in run.text
    assert "logs of rank" in run.text
    assert run.text.count("phalanx: restarted") <= 2, "an exception that repeats does not burn a budget of nine"


@pytest.mark.asyncio
async def test_a_used_up_budget_ends_the_job_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "exit.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    async with AgentProcess([*RUN, "--no-standby", "--max-restarts", "2", "exit.py"], cwd=tmp_path) as run:
        assert await run.exit_code(timeout_s=START_S) == 1
    assert "restart budget is used up" in run.text
    assert run.text.count("phalanx: restarted") == 2


@pytest.mark.asyncio
async def test_a_full_disk_in_the_log_folder_is_one_message_and_training_goes_on(
    tmp_path: Path, small_disk: Path
) -> None:
    (tmp_path / "chatty.py").write_text("for _ in range(3000):\n    print('x' * 1000)\nprint('all said')\n")
    argv = [*RUN, "--no-standby", "--log-dir", str(small_disk), "chatty.py"]
    async with AgentProcess(argv, cwd=tmp_path) as run:
        assert await run.exit_code(timeout_s=START_S) == 0
    assert run.text.count("No space left on device") == 1
    assert "[0]: all said" in run.lines


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("argv", "code", "part"),
    [
        (["missing.py"], 2, "the script missing.py does not exist"),
        (["folder"], 2, "folder is a directory"),
        (["--bogus", "ok.py"], 2, "--bogus"),
        ([], 2, "no script is given"),
        (["--nnodes", "2", "ok.py"], 2, "--rdzv-endpoint"),
        (["--nproc-per-node", "0", "ok.py"], 2, "needs 1 to 1024 workers"),
        (["--log-dir", "ok.py/logs", "ok.py"], 73, "cannot set up the folders"),
        (["--data-dir", "ok.py/data", "ok.py"], 73, "cannot set up the folders"),
    ],
)
async def test_a_mistake_on_the_command_line_is_one_message(
    tmp_path: Path, argv: list[str], code: int, part: str
) -> None:
    (tmp_path / "ok.py").write_text("")
    (tmp_path / "folder").mkdir()
    async with AgentProcess([*RUN, *argv], cwd=tmp_path) as run:
        assert await run.exit_code(timeout_s=60) == code
    assert part in run.text
    assert "Traceback" not in run.text
    await nothing_left(tmp_path)
