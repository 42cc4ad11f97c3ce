"""An agent when the world is not kind: a server that dies, commands out of order, signals, a bus that is away."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest
from agent_process import AgentProcess
from scripted_planner import ScriptedPlanner

from fault_contracts import agent as reports
from fault_contracts.recovery import JobOutcome
from phalanx_cli.stack.nats_server import NatsServer
from worker_link.process_tree import read_process

pytestmark = pytest.mark.integration

SLEEPER = "import signal, sys, time\nprint('up', flush=True)\ntime.sleep(600)\n"
DEAF = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(600)\n"


def agent(tmp_path: Path, url: str, name: str, script: str, *flags: str, node: str = "n0") -> AgentProcess:
    (tmp_path / "script.py").write_text(script)
    argv = ["-m", "node_agent.main", "--job-id", name, "--cluster", name, "--nats-url", url, "--nproc-per-node", "2"]
    return AgentProcess([*argv, "--node-id", node, "--no-standby", *flags, "script.py"], cwd=tmp_path)


def gone(pids: tuple[int, ...]) -> bool:
    """Ended: gone, or a zombie that init has not collected yet."""
    rows = [read_process(pid) for pid in pids]
    return not any(row is not None and row.alive for row in rows)


@pytest.mark.asyncio
async def test_a_server_killed_in_mid_run_costs_no_event_and_no_training(
    tmp_path: Path, fresh_nats: NatsServer, unique_name: str
) -> None:
    async with (
        ScriptedPlanner(fresh_nats.url, unique_name, cluster=unique_name) as planner,
        agent(tmp_path, fresh_nats.url, unique_name, SLEEPER) as node,
    ):
        here = await planner.wait_for(reports.AgentReported)
        await planner.start(1, [here], master_port=here.master_port)
        started = await planner.wait_for(reports.WorkersStarted)
        fresh_nats.kill()
        await node.wait_line("the bus is away: training goes on")
        os.kill(started.pids[0], signal.SIGKILL)
        await node.wait_line("rank 0 died (SIGKILL)")
        assert not gone(started.pids[1:])
        fresh_nats.start()
        died = await planner.wait_for(reports.WorkerExited)
        assert died.exit.signal == signal.SIGKILL
        await node.wait_line("the bus is back")
        # A command that is published after the server's return is heard as before.
        await planner.stop(1)
        await planner.wait_for(reports.WorkersStopped)
        assert len(planner.of(reports.WorkerExited)) == 1


@pytest.mark.asyncio
async def test_what_was_ordered_before_this_life_reported_is_not_for_it(
    tmp_path: Path, nats_server: NatsServer, unique_name: str
) -> None:
    async with ScriptedPlanner(nats_server.url, unique_name, cluster=unique_name) as planner:
        await planner.end(1, JobOutcome.FAILED_USER)  # the last run of this job id
        async with agent(tmp_path, nats_server.url, unique_name, SLEEPER):
            here = await planner.wait_for(reports.AgentReported)
            await planner.start(2, [here], master_port=here.master_port)
            assert (await planner.wait_for(reports.WorkersStarted)).topology_version == 2


@pytest.mark.asyncio
async def test_refusals_and_repeats_on_the_real_bus(tmp_path: Path, nats_server: NatsServer, unique_name: str) -> None:
    async with (
        ScriptedPlanner(nats_server.url, unique_name, cluster=unique_name) as planner,
        agent(tmp_path, nats_server.url, unique_name, SLEEPER),
    ):
        here = await planner.wait_for(reports.AgentReported)
        first = await planner.start(1, [here], master_port=here.master_port)
        await planner.wait_for(reports.WorkersStarted)
        await planner.start(1, [here], master_port=here.master_port, operation=first.operation_id)
        again = await planner.wait_for(reports.WorkersStarted, count=2)
        assert again.pids == planner.of(reports.WorkersStarted)[0].pids
        await planner.start(2, [here], master_port=1, valid_s=-5.0)
        assert (await planner.wait_for(reports.CommandRefused)).code == "expired"
        await planner.start(2, [here], master_port=1)
        assert (await planner.wait_for(reports.CommandRefused, count=2)).code == "illegal_transition"
        await planner.stop(0)
        assert (await planner.wait_for(reports.CommandRefused, count=3)).code == "stale"
        assert not gone(again.pids)


@pytest.mark.asyncio
async def test_sigterm_stops_the_ranks_says_so_and_leaves_with_143(
    tmp_path: Path, nats_server: NatsServer, unique_name: str
) -> None:
    async with (
        ScriptedPlanner(nats_server.url, unique_name, cluster=unique_name) as planner,
        agent(tmp_path, nats_server.url, unique_name, SLEEPER) as node,
    ):
        here = await planner.wait_for(reports.AgentReported)
        await planner.start(1, [here], master_port=here.master_port)
        started = await planner.wait_for(reports.WorkersStarted)
        await node.wait_line("]: up", count=2)
        node.signal(signal.SIGTERM)
        assert await node.exit_code() == 143
        assert gone(started.pids)
        left = await planner.wait_for(reports.AgentLeft)
        assert "SIGTERM" in left.reason
        assert not planner.of(reports.WorkerExited), "ranks that we stopped are no fault"


@pytest.mark.asyncio
async def test_deaf_ranks_are_killed_by_the_second_signal(
    tmp_path: Path, nats_server: NatsServer, unique_name: str
) -> None:
    async with (
        ScriptedPlanner(nats_server.url, unique_name, cluster=unique_name) as planner,
        agent(tmp_path, nats_server.url, unique_name, DEAF) as node,
    ):
        here = await planner.wait_for(reports.AgentReported)
        await planner.start(1, [here], master_port=here.master_port)
        started = await planner.wait_for(reports.WorkersStarted)
        await node.wait_line("]: up", count=2)
        began_s = time.monotonic()
        node.signal(signal.SIGINT)
        await node.wait_line("SIGINT: stopping 2 ranks")
        node.signal(signal.SIGINT)
        assert await node.exit_code(timeout_s=15) == 130
        assert time.monotonic() - began_s < 15, "not the 30 s of --shutdown-timeout"
        assert gone(started.pids)


@pytest.mark.asyncio
async def test_an_agent_killed_without_order_leaves_no_rank_and_its_next_life_owes_the_stop(
    tmp_path: Path, nats_server: NatsServer, unique_name: str
) -> None:
    async with ScriptedPlanner(nats_server.url, unique_name, cluster=unique_name) as planner:
        async with agent(tmp_path, nats_server.url, unique_name, DEAF) as node:
            here = await planner.wait_for(reports.AgentReported)
            await planner.start(1, [here], master_port=here.master_port)
            started = await planner.wait_for(reports.WorkersStarted)
            node.signal(signal.SIGKILL)
            await node.exit_code()
        async with asyncio.timeout(15):
            while not gone(started.pids):  # noqa: ASYNC110 - the kernel tells nobody when strangers end
                await asyncio.sleep(0.02)
        async with agent(tmp_path, nats_server.url, unique_name, DEAF):
            again = await planner.wait_for(reports.AgentReported, lambda r: r.instance_id != here.instance_id)
            await planner.stop(1)
            stopped = await planner.wait_for(reports.WorkersStopped)
            assert stopped.instance_id == again.instance_id
            assert len(planner.of(reports.WorkersStarted)) == 1, "the old start is not carried out again"


@pytest.mark.asyncio
async def test_a_script_that_is_gone_is_a_failed_start_with_the_reason(
    tmp_path: Path, nats_server: NatsServer, unique_name: str
) -> None:
    async with (
        ScriptedPlanner(nats_server.url, unique_name, cluster=unique_name) as planner,
        agent(tmp_path, nats_server.url, unique_name, SLEEPER) as node,
    ):
        here = await planner.wait_for(reports.AgentReported)
        (tmp_path / "script.py").unlink()
        await planner.start(1, [here], master_port=here.master_port)
        refused = await planner.wait_for(reports.CommandRefused)
        assert (refused.code, "script.py" in refused.message) == ("start_failed", True)
        await planner.end(1, JobOutcome.FAILED_USER, sentence="the program cannot be started")
        assert await node.exit_code() == 1
        assert "the program cannot be started" in node.text


@pytest.mark.asyncio
async def test_no_bus_at_the_start_is_one_clear_message_and_69(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SLEEPER)
    argv = ["-m", "node_agent.main", "--nats-url", "nats://127.0.0.1:9", "--no-standby", "script.py"]
    async with AgentProcess(argv, cwd=tmp_path, env={"PHALANX_CONNECT_LIMIT": "1"}) as node:
        assert await node.exit_code() == 69
        assert "no NATS server answered at nats://127.0.0.1:9 within 1 s" in node.text
        assert "Traceback" not in node.text


@pytest.mark.asyncio
async def test_a_signal_while_the_bus_is_looked_for_ends_the_wait(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SLEEPER)
    argv = ["-m", "node_agent.main", "--nats-url", "nats://127.0.0.1:9", "--no-standby", "script.py"]
    async with AgentProcess(argv, cwd=tmp_path) as node:
        await node.wait_line("phalanx: job ")
        await asyncio.sleep(0.5)
        node.signal(signal.SIGTERM)
        assert await node.exit_code(timeout_s=10) == 143


@pytest.mark.asyncio
async def test_an_idle_agent_is_small_and_still(tmp_path: Path, nats_server: NatsServer, unique_name: str) -> None:
    async with (
        ScriptedPlanner(nats_server.url, unique_name, cluster=unique_name) as planner,
        agent(tmp_path, nats_server.url, unique_name, SLEEPER) as node,
    ):
        here = await planner.wait_for(reports.AgentReported)
        await planner.start(1, [here], master_port=here.master_port)
        await planner.wait_for(reports.WorkersStarted)
        await asyncio.sleep(1)
        before_s = cpu_s(node.pid)
        await asyncio.sleep(10)
        used_s = cpu_s(node.pid) - before_s
        # 62 MB, and 9 MB for the signatures that it reads the ranks' output by (PHALANX_READ_OUTPUT=0: without).
        assert rss_bytes(node.pid) < 75_000_000
        assert used_s <= 0.05 + 0.01, f"{used_s:.2f} s of CPU in 10 s; 0.5 % of a core is 0.05 s (a tick is 0.01 s)"


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
