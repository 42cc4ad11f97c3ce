"""The scripts in examples/ under faults: they go on, and their loss curve is that of a run without faults.

in_process.py has its test in test_in_process_restart.py.
"""

import asyncio
import math
import os
import re
import signal
from pathlib import Path

import pytest
from agent_process import AgentProcess
from unfailed_losses import Losses, ddp_losses, linear_losses

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

EXAMPLES = Path(__file__).parents[2] / "examples"
START_S = 150.0
"""Imports of torch's libraries on two busy cores were seen to take 40 s."""
LIMIT_S = 90.0
WORLD = 2
STEPS = 60


def command(*script: str, flags: tuple[str, ...] = ()) -> list[str]:
    faults = ("--max-restarts", "10", "--nproc-per-node", str(WORLD))
    return ["-m", "phalanx_cli.main", "run", *faults, *flags, *script, "--steps", str(STEPS)]


async def start_of(run: AgentProcess, number: int, pattern: str, *, timeout_s: float = LIMIT_S) -> dict[int, int]:
    """Pids by rank of the number-th generation, once all ranks have said that they start."""
    async with asyncio.timeout(timeout_s):
        while len(found := re.findall(pattern, run.text)) < number * WORLD:
            assert run.process.returncode is None, run.text
            await asyncio.sleep(0.05)
    return {int(rank): int(pid) for rank, pid in found[-WORLD:]}


def hold_against(expected: Losses, seen: list[tuple[str, str, str]], *, text: str) -> None:
    """Every line is as in the unfailed run, and none of its lines is missing. NaN is what was injected."""
    finite = {(int(rank), int(step)): float(loss) for rank, step, loss in seen if math.isfinite(float(loss))}
    assert set(finite) == set(expected), text
    for rank, step, loss in seen:
        if math.isfinite(float(loss)):
            assert float(loss) == pytest.approx(expected[int(rank), int(step)], rel=1e-3, abs=2e-4), (rank, step)


@pytest.mark.asyncio
async def test_an_unmodified_ddp_script_comes_through_a_kill_and_an_exception(tmp_path: Path) -> None:
    begins = r"rank (\d) of 2 pid (\d+) starts at step \d+"
    script = (str(EXAMPLES / "ddp_torchrun.py"), "--checkpoint", "ddp.pt", "--checkpoint-every", "10")
    async with AgentProcess(command(*script), cwd=tmp_path) as run:
        first = await start_of(run, 1, begins, timeout_s=START_S)
        await run.wait_line("rank 0 step 10 loss")
        os.kill(first[1], signal.SIGKILL)
        await start_of(run, 2, begins)
        # What torch.save cannot write over. The script has no switch for faults, so the fault comes from outside.
        in_the_way = tmp_path / "ddp.pt.partial"
        async with asyncio.timeout(LIMIT_S):
            while not in_the_way.is_dir():
                try:
                    in_the_way.mkdir()
                except FileExistsError:  # a checkpoint is being written
                    await asyncio.sleep(0.01)
        await run.wait_line("Is a directory", timeout_s=LIMIT_S)
        in_the_way.rmdir()
        await start_of(run, 3, begins)
        assert await run.exit_code(timeout_s=LIMIT_S) == 0, run.text
    starts = [int(step) for step in re.findall(r"rank 1 of 2 pid \d+ starts at step (\d+)", run.text)]
    assert len(starts) == 3
    assert starts[0] == 1
    assert min(starts[1:]) > 1, "later generations go on after a checkpoint"
    assert all(step % 10 == 1 for step in starts)
    expected = {
        (rank, step): loss for (rank, step), loss in ddp_losses(STEPS, world_size=WORLD).items() if not step % 10
    }
    hold_against(expected, re.findall(r"rank (\d) step (\d+) loss ([\d.]+)", run.text), text=run.text)


@pytest.mark.asyncio
async def test_log_rules_alone_bring_a_script_through_an_exception_a_kill_and_a_nan(tmp_path: Path) -> None:
    begins = r"rank (\d) pid (\d+) starts after step \d+"
    (faults := tmp_path / "faults").mkdir()
    script = (str(EXAMPLES / "log_rules.py"), "--checkpoints", str(tmp_path / "saved"), "--faults", str(faults))
    flags = ("--log-rules", str(EXAMPLES / "log_rules.yaml"))
    async with AgentProcess(command(*script, flags=flags), cwd=tmp_path) as run:
        await start_of(run, 1, begins, timeout_s=START_S)
        await run.wait_line("rank 0 step 12 loss")
        (faults / "raise_rank_1").touch()
        second = await start_of(run, 2, begins)
        await run.wait_line("rank 0 step 22 loss")
        os.kill(second[0], signal.SIGKILL)
        await start_of(run, 3, begins)
        await run.wait_line("rank 0 step 32 loss")
        (faults / "nan_rank_1").touch()
        await start_of(run, 4, begins)
        assert await run.exit_code(timeout_s=LIMIT_S) == 0, run.text
    assert "rank 1 step" in run.text
    assert "loss nan" in run.text
    assert "loss-is-not-finite" in run.text, "the rule is named where the restart is announced"
    starts = [int(step) for step in re.findall(r"rank 1 pid \d+ starts after step (\d+)", run.text)]
    assert starts == [0, 10, 20, 30], "each generation goes on after the checkpoint that the rule saw"
    seen = re.findall(r"rank (\d) step (\d+) loss ([\d.]+|nan)", run.text)
    hold_against(linear_losses(STEPS, world_size=WORLD), seen, text=run.text)
