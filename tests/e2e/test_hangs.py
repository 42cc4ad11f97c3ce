"""Ranks that stand still, found and named by a real agent, without a change to the script's error handling."""

import asyncio
import os
import re
import signal
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from agent_process import AgentProcess

from phalanx_cli.stack.stack import Stack

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

RUN = ["-m", "phalanx_cli.main", "run", "--nproc-per-node", "2"]
START_S = 150.0
"""Imports of torch's libraries on two busy cores were seen to take 40 s."""

STEPS = """
import os, sys, time
import torch, torch.distributed as dist
import worker_link

def load_shard(step):
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        print(f"rank {rank} sleeps after step {step}", flush=True)
        time.sleep(3600)

dist.init_process_group("gloo")
rank, link = dist.get_rank(), worker_link.connect()
hangs_after, last = int(sys.argv[1]), int(sys.argv[2])
for step in range(1, last + 1):
    dist.all_reduce(torch.ones(4))
    link.step(step)
    time.sleep(0.05)
    if step % 10 == 0:
        restart = os.environ["TORCHELASTIC_RESTART_COUNT"]
        print(f"rank {rank} pid {os.getpid()} step {step} restart {restart}", flush=True)
    if step == hangs_after and rank == 1:
        load_shard(step)
dist.destroy_process_group()
"""


def evidence_in(folder: Path) -> Path:
    return next(folder.glob(".phalanx/logs/*/*/attempt_1/evidence_1"))


def pid_of(line: str) -> int:
    return int(re.search(r"pid (\d+)", line)[1])  # type: ignore[index]


@pytest.mark.asyncio
async def test_a_stopped_rank_is_named_and_the_gang_recovers(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STEPS)
    async with AgentProcess([*RUN, "train.py", "0", "100000"], cwd=tmp_path) as run:
        line = await run.wait_line("rank 1 pid", timeout_s=START_S)
        await run.wait_line("rank 0 pid")
        await run.wait_line("step 30 restart 0", count=2)
        stopped_s = time.monotonic()
        os.kill(pid_of(line), signal.SIGSTOP)
        await run.wait_line("phalanx: rank 1 cannot go on (hang_stopped)")
        found_s = time.monotonic()
        await run.wait_line("step 10 restart 1", count=2)
        print(f"found after {found_s - stopped_s:.2f} s, step 10 after {time.monotonic() - stopped_s:.2f} s")
        assert "verdict: platform, process_stopped" in run.text
        run.signal(signal.SIGTERM)
        await run.exit_code(timeout_s=60)
    evidence = evidence_in(tmp_path)
    assert "hang_stopped" in (evidence / "verdict.txt").read_text()
    assert "all_reduce" in (evidence / "stacks_rank_0.txt").read_text(), "where the other rank waits"
    assert not (evidence / "stacks_rank_1.txt").exists(), "a stopped process writes no dump"


@pytest.mark.asyncio
async def test_a_rank_that_sleeps_outside_of_the_collective_is_named_by_its_stack(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STEPS)
    async with AgentProcess([*RUN, "--hang-idle", "3", "train.py", "40", "60"], cwd=tmp_path) as run:
        await run.wait_line("rank 1 sleeps after step 40", timeout_s=START_S)
        line = await run.wait_line("cannot go on")
        assert line.startswith("phalanx: rank 1 cannot go on (hang_outside)")
        assert "in load_shard" in line
        assert await run.exit_code(timeout_s=90) == 0
        assert "verdict: unknown, hang: rank 1" in run.text
    evidence = evidence_in(tmp_path)
    assert "load_shard" in (evidence / "stacks_rank_1.txt").read_text()


@pytest.mark.asyncio
async def test_observed_hangs_are_told_and_nobody_acts(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STEPS)
    argv = [*RUN, "--hang-detection", "observe", "train.py", "0", "100000"]
    async with AgentProcess(argv, cwd=tmp_path) as run:
        line = await run.wait_line("rank 1 pid", timeout_s=START_S)
        os.kill(pid_of(line), signal.SIGSTOP)
        await run.wait_line("phalanx: a hang, not acted on (--hang-detection observe): rank 1 stopped")
        os.kill(pid_of(line), signal.SIGCONT)
        seen = run.text.count("rank 1 pid")
        await run.wait_line("rank 1 pid", count=seen + 2)
        assert "phalanx: restarted" not in run.text
        run.signal(signal.SIGTERM)
        await run.exit_code(timeout_s=60)


@pytest.mark.asyncio
async def test_over_two_nodes_the_node_of_the_sleeping_rank_names_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STEPS)
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(Stack(tmp_path / "stack", "local"))
        argv = [*RUN[:-1], "1", "--nnodes", "2", "--job-id", "pair", "--nats-url", servers.nats_url, "--hang-idle", "3"]
        nodes = [
            await stack.enter_async_context(
                AgentProcess(
                    [*argv, "--node-id", f"n{rank}", "--node-rank", str(rank), "train.py", "40", "60"], cwd=tmp_path
                )
            )
            for rank in (0, 1)
        ]
        await nodes[1].wait_line("rank 1 sleeps after step 40", timeout_s=START_S)
        line = await nodes[1].wait_line("cannot go on", timeout_s=60)
        assert line.startswith("phalanx: rank 1 cannot go on (hang_outside)")
        assert "while rank 0 wait in" in line or "in which rank 0 wait" in line
        assert await asyncio.gather(*(node.exit_code(timeout_s=90) for node in nodes)) == [0, 0]
        assert "cannot go on" not in nodes[0].text, "its rank is a victim"


UNMODIFIED = """
import os, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
for step in range(100):
    weights = torch.randn(400, 400)
    for _ in range(10):
        weights = torch.tanh(weights @ weights)
    dist.all_reduce(weights)
    if step == 50 and dist.get_rank() == 1 and first:
        print("rank 1 sleeps", flush=True)
        time.sleep(3600)
dist.destroy_process_group()
"""


@pytest.mark.asyncio
async def test_a_script_that_reports_nothing_is_watched_by_its_use_of_cpu(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(UNMODIFIED)
    async with AgentProcess([*RUN, "--hang-silence", "8", "train.py"], cwd=tmp_path) as run:
        await run.wait_line("rank 1 sleeps", timeout_s=START_S)
        line = await run.wait_line("cannot go on", timeout_s=90)
        assert line.startswith("phalanx: rank 1 cannot go on (hang_outside)")
        assert await run.exit_code(timeout_s=90) == 0
