"""What the end-to-end tests share: the scripts they train, and `phalanx run` as a process."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "integration"))

DDP = """
import os, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(torch.nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    time.sleep(0.02)
    if step % 10 == 0:
        restart = os.environ["TORCHELASTIC_RESTART_COUNT"]
        print(f"rank {rank} pid {os.getpid()} step {step} restart {restart}", flush=True)
dist.destroy_process_group()
print(f"rank {rank} done", flush=True)
"""


@pytest.fixture
def ddp_script(tmp_path: Path) -> Path:
    """A torchrun-style DistributedDataParallel script that knows nothing of Phalanx."""
    path = tmp_path / "train.py"
    path.write_text(DDP)
    return path
