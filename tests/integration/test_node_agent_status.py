"""The status API of a real agent process, on a real bus: asked in mid-run, after a death, and not at all."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from agent_process import AgentProcess
from scripted_planner import ScriptedPlanner

from fault_contracts import agent as reports
from phalanx_cli.stack.nats_server import NatsServer

pytestmark = pytest.mark.integration

SCRIPT = """
import os, time
import worker_link
link = worker_link.connect()
link.labels(dp=os.environ["RANK"])
link.step(12)
link.checkpoint_saved(10, "s3://c/10")
print("token", os.environ.get("PHALANX_STATUS_TOKEN"), flush=True)
time.sleep(600)
"""
TOKEN = "a-token-of-enough-length"


def agent(tmp_path: Path, url: str, name: str, *flags: str, env: dict[str, str] | None = None) -> AgentProcess:
    (tmp_path / "script.py").write_text(SCRIPT)
    argv = ["-m", "node_agent.main", "--job-id", name, "--cluster", name, "--nats-url", url, "--nproc-per-node", "2"]
    return AgentProcess([*argv, "--node-id", "n0", "--no-standby", *flags, "script.py"], cwd=tmp_path, env=env)


async def get(path: str, target: str) -> Any:
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(f"GET {target} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n".encode())
    try:
        async with asyncio.timeout(30):
            _, _, body = (await reader.read()).partition(b"\r\n\r\n")
    finally:
        writer.close()
    return json.loads(body)


@pytest.mark.asyncio
async def test_a_running_agent_tells_what_it_does(tmp_path: Path, nats_server: NatsServer, unique_name: str) -> None:
    async with (
        ScriptedPlanner(nats_server.url, unique_name, cluster=unique_name) as planner,
        agent(tmp_path, nats_server.url, unique_name, env={"PHALANX_STATUS_TOKEN": TOKEN}) as node,
    ):
        socket = (await node.wait_line("--unix-socket")).split()[4]
        here = await planner.wait_for(reports.AgentReported)
        assert (await get(socket, "/status"))["phase"] == "ready"
        await planner.start(1, [here], master_port=here.master_port)
        started = await planner.wait_for(reports.WorkersStarted)
        await planner.wait_for(reports.CheckpointReported, count=2)
        status = await get(socket, "/status")
        assert (status["phase"], status["topology_version"], status["node_rank"]) == ("running", 1, 0)
        assert (status["bus_connected"], status["last_fault"], status["step"]) == (True, None, 12)
        assert 0 <= status["planner_seen_age_s"] < 60
        ranks = await get(socket, "/ranks")
        assert [(r["pid"], r["step"], r["checkpoints"], r["labels"]) for r in ranks] == [
            (pid, 12, {"model": 10}, {"dp": str(rank)}) for rank, pid in enumerate(started.pids)
        ]
        await node.wait_line("token None", count=2)
        assert (await get(socket, "/logs/tail?rank=1"))["lines"] == ["token None"], "ranks do not get the secret"
        stacks = await get(socket, "/stacks?rank=1")
        assert any(frame["file"].endswith("script.py") for t in stacks["threads"] for frame in t["frames"]), stacks
        os.kill(started.pids[1], signal.SIGKILL)
        await planner.wait_for(reports.WorkerExited)
        status = await get(socket, "/status")
        assert (status["phase"], status["last_fault"]["rank"], status["last_fault"]["status"]) == (
            "faulted",
            1,
            "SIGKILL",
        )
        assert [r["state"] for r in await get(socket, "/ranks")] == ["running", "failed"]
        node.signal(signal.SIGTERM)
        assert await node.exit_code() == 143
        with pytest.raises(FileNotFoundError):
            await get(socket, "/status")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("flags", "env", "words"),
    [
        (("--status-socket", "no/such/folder/s"), {}, "status API: the status socket"),
        (("--status-port", "0"), {"PHALANX_STATUS_TOKEN": "short"}, "a token has at least 16"),
    ],
)
async def test_what_cannot_be_opened_ends_the_run_at_once_with_78(
    tmp_path: Path, flags: tuple[str, ...], env: dict[str, str], words: str
) -> None:
    async with agent(tmp_path, "nats://127.0.0.1:9", "job", *flags, env=env) as node:
        assert await node.exit_code() == 78
        assert words in node.text
        assert "Traceback" not in node.text


@pytest.mark.asyncio
async def test_an_open_door_without_a_token_is_refused_on_the_command_line(tmp_path: Path) -> None:
    flags = ("--status-port", "0", "--status-host", "0.0.0.0")
    async with agent(tmp_path, "nats://127.0.0.1:9", "job", *flags) as node:
        assert await node.exit_code() == 2
        assert "readable from the network; set PHALANX_STATUS_TOKEN" in node.text
