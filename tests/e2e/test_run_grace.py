"""A node that is taken away with notice, and a bus that is away for long: real torch ranks, planner and bus."""

import asyncio
import os
import re
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from agent_process import AgentProcess

from phalanx_cli.stack.nats_server import NatsServer
from phalanx_cli.stack.stack import Stack

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300), pytest.mark.asyncio]

RUN = ["-m", "phalanx_cli.main", "run"]
START_S = 120.0
SAVES_WHEN_ASKED = """
import os, sys, time
import torch, torch.distributed as dist
import worker_link

dist.init_process_group("gloo")
rank, link, resumed = dist.get_rank(), worker_link.connect(), worker_link.checkpoint()
first = resumed[0] + 1 if resumed else 0
print(f"rank {rank} begins at step {first}", flush=True)
for step in range(first, int(sys.argv[1])):
    dist.all_reduce(torch.ones(1))
    time.sleep(0.03)
    link.step(step)
    if link.checkpoint_requested(step):
        print(f"rank {rank} saves step {step}", flush=True)
        dist.barrier()  # as a sharded save would: ranks that disagreed about the step would hang here
        path = os.path.abspath(f"{step}-{rank}.pt")
        with open(path, "w") as file:
            file.write("weights")
        link.checkpoint_saved(step, path, writers=2)
    if step % 10 == 0:
        print(f"rank {rank} step {step}", flush=True)
dist.destroy_process_group()
"""


async def test_a_node_taken_away_with_notice_costs_no_step_that_was_saved(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SAVES_WHEN_ASKED)
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(Stack(tmp_path / "stack", "local"))
        argv = [*RUN, "--nnodes", "2", "--spares", "1", "--nproc-per-node", "1", "--max-restarts", "0"]
        argv += ["--job-id", "notice", "--nats-url", servers.nats_url]
        nodes = {}
        for name in ("a", "b", "c"):
            node = AgentProcess([*argv, "--node-id", name, "train.py", "500"], cwd=tmp_path)
            nodes[name] = await stack.enter_async_context(node)
            await node.wait_line("phalanx: job notice, node")
        found = await asyncio.gather(*(until_placed(node) for node in nodes.values()))
        placed = dict(zip(nodes, found, strict=True))
        [spare] = [name for name, trains in placed.items() if not trains]
        leaver, survivor = [name for name, trains in placed.items() if trains]
        for name in (leaver, survivor):
            await nodes[name].wait_line("step 20", timeout_s=START_S)
        nodes[leaver].signal(signal.SIGTERM)
        assert await nodes[leaver].exit_code(timeout_s=60) == 143
        saved = [re.search(r"saves step (\d+)", nodes[name].text) for name in (leaver, survivor)]
        assert None not in saved, "every rank was asked"
        steps = {int(found[1]) for found in saved if found}
        assert len(steps) == 1, f"ranks saved after different steps: {steps}"
        first = steps.pop() + 1
        for name in (spare, survivor):
            await nodes[name].wait_line(f"begins at step {first}", timeout_s=60)
            assert await nodes[name].exit_code(timeout_s=120) == 0, "with a restart budget of 0: it is nobody's fault"
        assert f"the checkpoint of step {first - 1} is saved" in nodes[survivor].text


async def until_placed(node: AgentProcess) -> bool:
    """True: it trains. False: it stands by."""
    trains = asyncio.create_task(node.wait_line("begins at step 0", timeout_s=START_S))
    waits = asyncio.create_task(node.wait_line("standing by as a spare", timeout_s=START_S))
    done, pending = await asyncio.wait((trains, waits), return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    assert done
    return trains in done


async def test_a_long_outage_of_the_bus_frees_broken_ranks_and_the_gang_comes_back(
    tmp_path: Path, ddp_script: Path, fresh_nats: NatsServer
) -> None:
    async with Stack(tmp_path / "stack", "local", nats_url=fresh_nats.url):
        argv = [*RUN, "--nproc-per-node", "2", "--nats-url", fresh_nats.url, "--planner-silence-s", "4"]
        async with AgentProcess([*argv, "train.py", "400"], cwd=tmp_path) as run:
            line = await run.wait_line("rank 1 pid", timeout_s=START_S)
            fresh_nats.kill()
            os.kill(int(re.search(r"pid (\d+)", line)[1]), signal.SIGKILL)  # type: ignore[index]
            await run.wait_line("this node is ready for the planner's next start")
            fresh_nats.start()
            await run.wait_line("phalanx: restarted ranks 0-1 of 2", timeout_s=120)
            assert await run.exit_code(timeout_s=120) == 0
        assert run.text.count("phalanx: restarted") == 1
        assert "the planner is back" in run.text
