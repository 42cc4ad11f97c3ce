"""Real gloo ranks: a gang that shrinks and grows again, and a poisoned checkpoint that is stepped over."""

import asyncio
import re
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from agent_process import AgentProcess

from phalanx_cli.stack.stack import Stack

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

RUN = ["-m", "phalanx_cli.main", "run"]
START_S = 150.0

TRAIN = """
import os, pathlib, sys, time
import torch, torch.distributed as dist
import worker_link

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
link = worker_link.connect()
done, path = worker_link.checkpoint() or (0, "")
value = float(pathlib.Path(path).read_text()) if path else 0.0  # each rank of any world reads the same file
print(f"rank {rank} of {world} of {os.environ['GROUP_WORLD_SIZE']} nodes goes on after {done} with {value}", flush=True)
for step in range(done + 1, int(sys.argv[1]) + 1):
    if value != value:
        raise ValueError("the loss is not a number")
    whole = torch.ones(1)
    dist.all_reduce(whole)
    assert whole.item() == world
    value += 1
    poisoned = torch.tensor([float(pathlib.Path(f"poison_{step}").exists())])
    dist.broadcast(poisoned, 0)  # what rank 0 sees counts: it takes the file away, and others may look later
    if poisoned.item():
        value = float("nan")  # from here on the model is lost, and the next checkpoint holds it
        pathlib.Path(f"poison_{step}").unlink(missing_ok=True)
    time.sleep(0.05)
    link.step(step)
    if step % 10 == 0:
        print(f"rank {rank} of {world} step {step}", flush=True)
        if rank == 0:
            partial = pathlib.Path(f"{step}.partial")
            partial.write_text(str(value))
            partial.rename(f"{step}.ckpt")
            link.checkpoint_saved(step, f"{step}.ckpt", writers=1)
        if value != value:
            time.sleep(5)  # time for the confirmation to arrive, before the loss is looked at
dist.barrier()
print(f"rank {rank} of {world} done with {value}", flush=True)
dist.destroy_process_group()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the script in it."""
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


@pytest.mark.asyncio
async def test_a_gang_without_a_spare_shrinks_goes_on_and_grows_when_a_node_joins(folder: Path) -> None:
    steps = 900
    (folder / "policy.yaml").write_text("elastic: {nnodes_min: 2, wait_s: 1, snooze_s: 5}\n")
    async with AsyncExitStack() as stack:
        servers = await stack.enter_async_context(Stack(folder / "stack", "local"))
        argv = [*RUN, "--nnodes", "3", "--nproc-per-node", "1", "--job-id", "trio", "--policy", "policy.yaml"]
        argv += ["--nats-url", servers.nats_url]

        async def join(name: str) -> AgentProcess:
            node = AgentProcess([*argv, "--node-id", name, "train.py", str(steps)], cwd=folder)
            return await stack.enter_async_context(node)

        nodes = [await join(name) for name in ("a", "b", "c")]
        for node in nodes:
            await node.wait_line("of 3 step 20", timeout_s=START_S)
        nodes[1].signal(signal.SIGKILL)
        left = [nodes[0], nodes[2]]
        for node in left:
            line = await node.wait_line("of 2 of 2 nodes goes on after", timeout_s=90)
            assert int(re.search(r"after (\d+) with", line)[1]) >= 10, "from a checkpoint of three ranks"  # type: ignore[index]
        await left[0].wait_line("of 2 step", timeout_s=30)
        late = await join("d")
        gang = [*left, late]
        for node in gang:
            line = (
                await node.wait_line("of 3 of 3 nodes goes on after", timeout_s=90)
                if node is late
                else (await node.wait_line("of 3 of 3 nodes goes on after", count=2, timeout_s=90))
            )
        assert await asyncio.gather(*(node.exit_code(timeout_s=120) for node in gang)) == [0, 0, 0]
        for node in gang:
            assert f"of 3 done with {float(steps)}" in node.text, "every step was counted once, in a gang of any size"


@pytest.mark.asyncio
async def test_a_poisoned_checkpoint_is_stepped_over_and_the_job_gets_through(folder: Path) -> None:
    steps = 60
    (folder / "policy.yaml").write_text("checkpoint: {step_back_max: 1}\n")
    (folder / "poison_30").touch()
    argv = [*RUN, "--nproc-per-node", "2", "--policy", "policy.yaml", "train.py", str(steps)]
    async with AgentProcess(argv, cwd=folder) as run:
        assert await run.exit_code(timeout_s=START_S) == 0
    begun = [int(step) for step in re.findall(r"rank 0 of 2 of 1 nodes goes on after (\d+) ", run.text)]
    assert begun == [0, 30, 20], "the newest, once again, and then the one before"
    assert "the checkpoint of step 30 is stepped over" in run.text
    assert run.text.count(f"of 2 done with {float(steps)}") == 2
