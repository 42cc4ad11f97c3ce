"""A stalled data loader, live: the others wait in a collective for a rank whose loader brings no batch.

Whoever looks only at the time-out blames the network or a machine. The verdict has to be the user's data loading, with
the stalled rank named, and no node touched; whether the hang is found first or the time-out of the collective comes.
"""

from pathlib import Path

import pytest
from agent_process import AgentProcess

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]

RUN = ["-m", "phalanx_cli.main", "run", "--nproc-per-node", "3"]
START_S = 200.0
"""Imports of torch's libraries on two busy cores were seen to take 40 s."""

TRAIN = """
import datetime, os, sys, time
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset
import worker_link

first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
stalls_at, last, limit_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])

class Shards(Dataset):
    def __len__(self):
        return last

    def __getitem__(self, index):
        if first and dist.get_rank() == 1 and index == stalls_at:
            print("rank 1 reads a slow shard", flush=True)
            time.sleep(3600)
        return torch.ones(4) * index

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=limit_s))
rank, link = dist.get_rank(), worker_link.connect()
for step, batch in enumerate(DataLoader(Shards(), batch_size=1), 1):
    dist.all_reduce(batch)
    link.step(step)
    time.sleep(0.05)
dist.destroy_process_group()
"""


def assert_blames_the_loader_of_rank_1(text: str) -> None:
    verdicts = [line for line in text.splitlines() if "verdict: " in line or "reason: " in line]
    assert any("dataloader_stall" in line for line in verdicts), verdicts
    assert not any("hardware" in line or "driver" in line for line in verdicts), verdicts
    assert "rank 1" in "\n".join(verdicts)


@pytest.mark.asyncio
async def test_hang_detection_finds_it_first(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    argv = [*RUN, "--hang-idle", "3", "train.py", "40", "60", "600"]
    async with AgentProcess(argv, cwd=tmp_path) as run:
        await run.wait_line("rank 1 reads a slow shard", timeout_s=START_S)
        line = await run.wait_line("cannot go on", timeout_s=60)
        assert "rank 1 cannot go on" in line
        await run.exit_code(timeout_s=120)
        assert_blames_the_loader_of_rank_1(run.text)


@pytest.mark.asyncio
async def test_the_time_out_of_the_collective_comes_first(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    argv = [*RUN, "--hang-detection", "off", "train.py", "40", "60", "4"]
    async with AgentProcess(argv, cwd=tmp_path) as run:
        await run.wait_line("rank 1 reads a slow shard", timeout_s=START_S)
        await run.exit_code(timeout_s=120)
        assert_blames_the_loader_of_rank_1(run.text)
        assert "rank 1 died" not in run.text, "the others died of waiting for it"
