"""`phalanx run` on two nodes and a spare that share this machine, meeting at an endpoint or at a running bus."""

import asyncio
import os
import re
import signal
import socket
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from agent_process import AgentProcess

from phalanx_cli.stack.stack import Stack

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

RUN = ["-m", "phalanx_cli.main", "run"]
START_S = 120.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.asyncio
async def test_two_nodes_meet_at_an_endpoint_and_the_first_hosts_the_bus(tmp_path: Path, ddp_script: Path) -> None:
    argv = [*RUN, "--nnodes", "2", "--nproc-per-node", "1", "--rdzv-endpoint", f"127.0.0.1:{free_port()}"]
    argv += ["--job-id", "pair", "--shutdown-timeout", "5"]
    async with AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(
                AgentProcess([*argv, "--node-rank", str(rank), "train.py", "30"], cwd=tmp_path)
            )
            for rank in (0, 1)
        ]
        assert await asyncio.gather(*(node.exit_code(timeout_s=START_S) for node in nodes)) == [0, 0]
        assert "[0]: rank 0 done" in nodes[0].lines
        assert "[1]: rank 1 done" in nodes[1].lines
        assert "starting nats-server" in nodes[0].text
        assert "starting nats-server" not in nodes[1].text


@pytest.mark.asyncio
async def test_a_spare_takes_the_place_of_a_killed_node(tmp_path: Path, ddp_script: Path) -> None:
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(Stack(tmp_path / "stack", "local"))
        argv = [*RUN, "--nnodes", "2", "--spares", "1", "--nproc-per-node", "1", "--job-id", "trio"]
        argv += ["--nats-url", servers.nats_url]
        nodes = {}
        for name in ("a", "b", "c"):
            node = AgentProcess([*argv, "--node-id", name, "train.py", "400"], cwd=tmp_path)
            nodes[name] = await stack.enter_async_context(node)
            await node.wait_line("phalanx: job trio, node")
        spare = await first_spare(nodes)
        training = [name for name in nodes if name != spare]
        for name in training:
            await nodes[name].wait_line("step 10 restart 0", timeout_s=START_S)
        lost, survivor = training
        rank = re.search(r"\[(\d)\]: rank", nodes[lost].text)[1]  # type: ignore[index]
        nodes[lost].signal(signal.SIGKILL)
        await nodes[spare].wait_line(f"phalanx: restarted rank {rank} of 2", timeout_s=60)
        await nodes[survivor].wait_line(f"phalanx: restarted rank {1 - int(rank)} of 2", timeout_s=60)
        for name in (spare, survivor):
            assert await nodes[name].exit_code(timeout_s=90) == 0


async def first_spare(nodes: dict[str, AgentProcess]) -> str:
    waits = {asyncio.create_task(node.wait_line("standing by as a spare")): name for name, node in nodes.items()}
    done, waiting = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED, timeout=START_S)
    for wait in waiting:
        wait.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    return waits[done.pop()]


@pytest.mark.asyncio
async def test_the_servers_die_and_come_back_while_a_real_job_trains(tmp_path: Path, ddp_script: Path) -> None:
    async with Stack(tmp_path / "stack", "local") as servers:
        argv = [*RUN, "--nproc-per-node", "2", "--nats-url", servers.nats_url, "train.py", "500"]
        async with AgentProcess(argv, cwd=tmp_path) as run:
            line = await run.wait_line("rank 1 pid", timeout_s=START_S)
            nats = servers.member("nats-server")
            assert nats.process is not None
            os.kill(nats.process.pid, signal.SIGKILL)
            await run.wait_line("step 100 restart 0")
            os.kill(int(re.search(r"pid (\d+)", line)[1]), signal.SIGKILL)  # type: ignore[index]
            await run.wait_line("phalanx: restarted ranks 0-1 of 2", timeout_s=60)
            assert await run.exit_code(timeout_s=90) == 0
        assert run.text.count("phalanx: restarted") == 1
