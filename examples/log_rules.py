"""A training loop that imports nothing of Phalanx: rules about its output say what a step, a checkpoint and a fault is.

phalanx run --nproc-per-node 4 --log-rules examples/log_rules.yaml examples/log_rules.py --checkpoints /tmp/log_rules
torchrun --nproc-per-node 4 examples/log_rules.py --checkpoints /tmp/log_rules
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoints", type=Path, required=True, help="folder on a disk that all nodes share")
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--checkpoint-every", type=int, default=10)
parser.add_argument("--step-s", type=float, default=0.05, help="pause in each step, so that there is time to break it")
parser.add_argument("--faults", type=Path, help="a file raise_rank_N or nan_rank_N here makes rank N fail once")
args = parser.parse_args()


def faulty(what: str, rank: int) -> bool:
    """Whether a fault is wanted now; it passes with the retry."""
    wanted = args.faults and args.faults / f"{what}_rank_{rank}"
    if wanted and wanted.exists():
        wanted.unlink()
        return True
    return False


dist.init_process_group("gloo")
rank, world_size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.Linear(32, 1)

# Phalanx names the checkpoint that the rules saw; everybody else takes the newest.
args.checkpoints.mkdir(parents=True, exist_ok=True)
newest = max(map(str, args.checkpoints.glob("step_*.pt")), default=None)
done, path = 0, os.environ.get("PHALANX_CHECKPOINT_PATH", newest)
if path:
    saved = torch.load(path, weights_only=True)
    model.load_state_dict(saved["model"])
    done = saved["step"]
print(f"rank {rank} pid {os.getpid()} starts after step {done}", flush=True)

for step in range(done + 1, args.steps + 1):
    inputs = torch.randn(16, 32, generator=torch.Generator().manual_seed(step * 1000 + rank))
    if faulty("raise", rank):
        raise OSError("the next batch could not be read (injected)")
    if faulty("nan", rank):
        inputs *= float("nan")
    loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
    model.zero_grad()
    loss.backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.data.sub_(parameter.grad, alpha=0.01 / world_size)
    print(f"rank {rank} step {step} loss {loss.item():.6f}", flush=True)
    time.sleep(args.step_s)
    # A rule acts a moment after the line: until then a broken model must not take the place of a good one.
    if rank == 0 and step % args.checkpoint_every == 0 and model.weight.isfinite().all():
        path = args.checkpoints / f"step_{step:06d}.pt"
        torch.save({"model": model.state_dict(), "step": step}, path.with_suffix(".partial"))
        path.with_suffix(".partial").rename(path)
        print(f"saved checkpoint {path} at step {step}", flush=True)

dist.barrier()
dist.destroy_process_group()
