"""A script that knows nothing of Phalanx saves into a folder, is killed, and resumes from what was found there."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path

import pytest
from agent_process import AgentProcess

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

RUN = ["-m", "phalanx_cli.main", "run", "--nproc-per-node", "2", "--checkpoint-dir", "ckpt"]
START_S = 120.0

# Rank 0 writes, slowly and in two parts, as a large model is written; the other rank waits as in a collective.
SCRIPT = """
import os, pickle, sys, time, zipfile

rank = int(os.environ["RANK"])
start = 0
if path := os.environ.get("PHALANX_CHECKPOINT_PATH"):
    with zipfile.ZipFile(path) as archive:
        start = int(archive.read("step"))
    assert start == int(os.environ["PHALANX_CHECKPOINT_STEP"])
print(f"rank {rank} pid {os.getpid()} starts at {start}", flush=True)
for step in range(start + 1, int(sys.argv[1]) + 1):
    time.sleep(0.05)
    if rank == 0 and step % 20 == 0:
        os.makedirs("ckpt", exist_ok=True)
        with zipfile.ZipFile(f"ckpt/step_{step}.pt", "w") as archive:
            archive.writestr("weights", os.urandom(10_000))
            archive.fp.flush()
            time.sleep(0.1)
            archive.writestr("step", str(step))
        print(f"saved {step}", flush=True)
print(f"rank {rank} done", flush=True)
"""


async def job(*words: str, cwd: Path) -> str:
    """What `phalanx job` says of the run on this folder."""
    argv = ("-P", "-m", "phalanx_cli.main", "job", *words)
    env = {name: value for name, value in os.environ.items() if name != "NATS_URL"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *argv, cwd=cwd, env=env, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return out.decode()


@pytest.mark.asyncio
async def test_a_script_that_only_saves_files_resumes_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    async with AgentProcess([*RUN, "--job-id", "plain", "train.py", "400"], cwd=tmp_path) as run:
        line = await run.wait_line("rank 1 pid", timeout_s=START_S)
        async with asyncio.timeout(START_S):
            while "checkpoint   step" not in (told := await job("plain", cwd=tmp_path)):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        counted = int(re.search(r"checkpoint   step (\d+)", told)[1])  # type: ignore[index]
        os.kill(int(re.search(r"pid (\d+)", line)[1]), signal.SIGKILL)  # type: ignore[index]
        again = await run.wait_line("rank 1 pid", count=2, timeout_s=START_S)
        resumed = int(re.search(r"starts at (\d+)", again)[1])  # type: ignore[index]
        assert resumed >= counted > 0
        assert resumed % 20 == 0
        assert (tmp_path / "ckpt" / f"step_{resumed}.pt").exists()
        assert await run.exit_code(timeout_s=120) == 0
    async with AgentProcess([*RUN, "--job-id", "next", "train.py", "410"], cwd=tmp_path) as run:
        line = await run.wait_line("rank 0 pid", timeout_s=START_S)
        assert "starts at 400" in line, "a new job goes on from what lay in the folder"
        assert await run.exit_code(timeout_s=60) == 0
