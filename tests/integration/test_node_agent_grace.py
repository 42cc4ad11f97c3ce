"""A real agent whose node is taken away, or whose planner is: real ranks, a real bus that is killed, real signals."""

import os
import signal
from pathlib import Path

import pytest
from agent_process import AgentProcess
from scripted_planner import ScriptedPlanner

from fault_contracts import agent as reports
from fault_contracts.lone_agent import AgentActedAlone
from fault_contracts.preemption import PreemptionNoticed
from fault_contracts.recovery import JobOutcome
from phalanx_cli.stack.nats_server import NatsServer
from worker_link.process_tree import read_process

pytestmark = [pytest.mark.integration, pytest.mark.asyncio]

SLEEPER = "import time\nprint('up', flush=True)\ntime.sleep(600)\n"
SAYS_WHICH = """
import signal, sys, time
def told(number, frame):
    print("got", signal.Signals(number).name, flush=True)
    sys.exit(0)
for name in ("SIGTERM", "SIGUSR1", "SIGINT"):
    signal.signal(getattr(signal, name), told)
print("up", flush=True)
time.sleep(600)
"""
STEPS = """
import os, time, worker_link
link = worker_link.connect()
step = 0
while True:
    step += 1
    time.sleep(0.05)
    link.step(step)
    if link.checkpoint_requested(step):
        print("saves", step, flush=True)
        path = os.path.abspath(f"{step}-{os.environ['RANK']}.pt")
        with open(path, "w") as file:
            file.write("weights")
        link.checkpoint_saved(step, path)
"""


def agent(tmp_path: Path, url: str, name: str, script: str, *flags: str) -> AgentProcess:
    (tmp_path / "script.py").write_text(script)
    argv = ["-m", "node_agent.main", "--job-id", name, "--cluster", name, "--nats-url", url, "--nproc-per-node", "2"]
    return AgentProcess([*argv, "--node-id", "n0", "--no-standby", *flags, "script.py"], cwd=tmp_path)


async def begun(planner: ScriptedPlanner) -> reports.WorkersStarted:
    here = await planner.wait_for(reports.AgentReported)
    await planner.start(1, [here], master_port=here.master_port)
    return await planner.wait_for(reports.WorkersStarted)


def gone(pids: tuple[int, ...]) -> bool:
    return not any(row is not None and row.alive for row in map(read_process, pids))


async def test_a_dead_bus_and_a_dead_rank_free_the_node_and_the_story_is_told(
    tmp_path: Path, fresh_nats: NatsServer, unique_name: str
) -> None:
    async with (
        ScriptedPlanner(fresh_nats.url, unique_name, cluster=unique_name) as planner,
        agent(tmp_path, fresh_nats.url, unique_name, SLEEPER, "--planner-silence-s", "3") as node,
    ):
        started = await begun(planner)
        fresh_nats.kill()
        os.kill(started.pids[0], signal.SIGKILL)
        await node.wait_line("rank 0 died (SIGKILL)")
        assert not gone(started.pids[1:])
        await node.wait_line("this node is ready for the planner's next start")
        assert gone(started.pids)
        fresh_nats.start()
        story = await planner.wait_for(AgentActedAlone)
        assert story.reason.rule_id == "dead_man.broken"
        assert [ended.rank for ended in story.exits] == [1]
        assert (await planner.wait_for(reports.WorkerExited)).exit.rank == 0
        await node.wait_line("the planner is back; meanwhile this node stopped its 2 ranks")
        await planner.stop(1)
        stopped = await planner.wait_for(reports.WorkersStopped)
        here = planner.of(reports.AgentReported)[-1]
        await planner.start(2, [here], master_port=stopped.master_port, attempt=1, restart_count=1)
        assert (await planner.wait_for(reports.WorkersStarted, count=2)).topology_version == 2
        await planner.end(2, JobOutcome.SUCCEEDED)
        assert await node.exit_code() == 0


async def test_a_planner_that_is_gone_from_a_living_bus_costs_no_training(
    tmp_path: Path, nats_server: NatsServer, unique_name: str
) -> None:
    async with (
        ScriptedPlanner(nats_server.url, unique_name, cluster=unique_name) as planner,
        agent(tmp_path, nats_server.url, unique_name, SLEEPER, "--planner-silence-s", "2") as node,
    ):
        started = await begun(planner)
        await planner.be_silent()
        await node.wait_line("the ranks of this node train (--on-planner-lost keep)")
        assert not gone(started.pids[:1])
        os.kill(started.pids[0], signal.SIGKILL)
        await planner.wait_for(AgentActedAlone)
        assert gone(started.pids)


async def test_ranks_save_after_the_step_that_the_planner_names_and_the_agent_leaves_with_the_stop(
    tmp_path: Path, nats_server: NatsServer, unique_name: str
) -> None:
    async with (
        ScriptedPlanner(nats_server.url, unique_name, cluster=unique_name) as planner,
        agent(tmp_path, nats_server.url, unique_name, STEPS, "--preemption-signal", "SIGUSR1") as node,
    ):
        await begun(planner)
        await planner.wait_for(reports.StepReported, lambda report: report.step >= 5)
        node.signal(signal.SIGUSR1)
        notice = await planner.wait_for(PreemptionNoticed)
        await planner.request_checkpoint(1, at_step=notice.at_step)
        for rank in (0, 1):
            saved = await planner.wait_for(reports.CheckpointReported, lambda report, rank=rank: report.rank == rank)
            assert saved.step == notice.at_step
        await planner.stop(1)
        assert await node.exit_code() == 128 + signal.SIGUSR1
        assert node.text.count("saves") == 2, "one checkpoint of each rank"
        assert "SIGUSR1" in (await planner.wait_for(reports.AgentLeft)).reason
        assert not planner.of(reports.WorkerExited)


@pytest.mark.parametrize(
    ("flags", "number", "heard"),
    [
        ((), signal.SIGTERM, "got SIGTERM"),
        (("--preemption-signal", "SIGUSR1"), signal.SIGUSR1, "got SIGUSR1"),
        (("--shutdown-signal", "SIGINT"), signal.SIGTERM, "got SIGINT"),
        ((), signal.SIGINT, "got SIGTERM"),
    ],
    ids=["as it came", "passed on", "chosen", "ctrl-c"],
)
async def test_the_first_signal_of_ranks(
    tmp_path: Path,
    nats_server: NatsServer,
    unique_name: str,
    flags: tuple[str, ...],
    number: signal.Signals,
    heard: str,
) -> None:
    async with (
        ScriptedPlanner(nats_server.url, unique_name, cluster=unique_name) as planner,
        agent(tmp_path, nats_server.url, unique_name, SAYS_WHICH, *flags) as node,
    ):
        await begun(planner)
        await node.wait_line("]: up", count=2)
        node.signal(number)
        assert await node.exit_code() == 128 + number
        assert node.text.count(heard) == 2


async def test_a_stop_by_command_begins_with_the_chosen_signal_too(
    tmp_path: Path, nats_server: NatsServer, unique_name: str
) -> None:
    async with (
        ScriptedPlanner(nats_server.url, unique_name, cluster=unique_name) as planner,
        agent(tmp_path, nats_server.url, unique_name, SAYS_WHICH, "--shutdown-signal", "SIGUSR1") as node,
    ):
        await begun(planner)
        await node.wait_line("]: up", count=2)
        await planner.stop(1, grace_s=20)
        await node.wait_line("got SIGUSR1", count=2)
        stopped = await planner.wait_for(reports.WorkersStopped)
        assert [ended.exit_code for ended in stopped.exits] == [0, 0]
