"""One real agent process, a real nats-server, and a planner that does what the test says."""

import os
import signal
from pathlib import Path

import pytest
from agent_process import AgentProcess
from scripted_planner import ScriptedPlanner

from fault_contracts import agent as reports
from fault_contracts.commands import CheckpointRef
from fault_contracts.recovery import JobOutcome
from phalanx_cli.stack.nats_server import NatsServer

pytestmark = pytest.mark.integration

SCRIPT = """
import os, sys, time
print("rank", os.environ["RANK"], "version", os.environ["PHALANX_TOPOLOGY_VERSION"],
      "step", os.environ.get("PHALANX_CHECKPOINT_STEP"), flush=True)
if sys.argv[1:] == ["quick"]:
    sys.exit(0)
if sys.argv[1:] == ["fail"] and os.environ["RANK"] == "1":
    raise ValueError("no such shard")
time.sleep(600)
"""


def agent(tmp_path: Path, url: str, name: str, *args: str, flags: tuple[str, ...] = ()) -> AgentProcess:
    (tmp_path / "script.py").write_text(SCRIPT)
    argv = ["-m", "node_agent.main", "--job-id", name, "--cluster", name, "--nats-url", url, "--nproc-per-node", "2"]
    return AgentProcess([*argv, "--node-id", "n0", "--no-standby", *flags, "script.py", *args], cwd=tmp_path)


@pytest.mark.asyncio
async def test_a_gang_is_started_broken_stopped_started_again_and_ended(
    tmp_path: Path, nats_server: NatsServer, unique_name: str
) -> None:
    async with (
        ScriptedPlanner(nats_server.url, unique_name, cluster=unique_name) as planner,
        agent(tmp_path, nats_server.url, unique_name) as node,
    ):
        here = await planner.wait_for(reports.AgentReported)
        assert here.phase is reports.AgentPhase.READY
        await planner.start(1, [here], master_port=here.master_port)
        started = await planner.wait_for(reports.WorkersStarted)
        assert len(started.pids) == 2

        os.kill(started.pids[1], signal.SIGKILL)
        died = await planner.wait_for(reports.WorkerExited)
        assert (died.exit.rank, died.exit.signal, died.ordinal) == (1, signal.SIGKILL, 0)

        await planner.stop(1)
        stopped = await planner.wait_for(reports.WorkersStopped)
        assert stopped.master_port != here.master_port
        with pytest.raises(ProcessLookupError):
            os.kill(started.pids[0], 0)

        await planner.start(
            2,
            [here],
            master_port=stopped.master_port,
            attempt=1,
            restart_count=1,
            checkpoint=CheckpointRef(step=7, path="/x"),
        )
        again = await planner.wait_for(reports.WorkersStarted, count=2)
        assert again.topology_version == 2
        await node.wait_line("version 2 step 7", count=2)

        await planner.end(2, JobOutcome.FAILED_BUDGET, sentence="three restarts are used up")
        assert await node.exit_code() == 1
        assert "three restarts are used up" in node.text
        left = await planner.wait_for(reports.AgentLeft)
        assert "failed_budget" in left.reason


@pytest.mark.asyncio
async def test_ranks_that_end_with_zero_complete_the_node(
    tmp_path: Path, nats_server: NatsServer, unique_name: str
) -> None:
    async with (
        ScriptedPlanner(nats_server.url, unique_name, cluster=unique_name) as planner,
        agent(tmp_path, nats_server.url, unique_name, "quick") as node,
    ):
        here = await planner.wait_for(reports.AgentReported)
        await planner.start(1, [here], master_port=here.master_port)
        await planner.wait_for(reports.WorkersCompleted)
        await planner.end(1, JobOutcome.SUCCEEDED)
        assert await node.exit_code() == 0
        assert "job succeeded" in node.text
        assert not planner.of(reports.WorkerExited)
