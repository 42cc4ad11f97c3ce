"""A training loop that is restarted inside its process: one rank fails, and all go on with interpreter and memory kept.

phalanx run --nproc-per-node 4 examples/in_process.py --checkpoints /tmp/in_process

What Phalanx needs is the decorator, and the two reports that let it choose a checkpoint and see a hang.
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

import worker_link

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoints", type=Path, required=True, help="folder on a disk that all nodes share")
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--checkpoint-every", type=int, default=10)
parser.add_argument("--step-s", type=float, default=0.05, help="pause in each step, so that there is time to break it")
parser.add_argument("--faults", type=Path, help="a file raise_rank_N in this folder makes rank N raise once")
args = parser.parse_args()


def batch(step: int, rank: int) -> torch.Tensor:
    return torch.randn(16, 32, generator=torch.Generator().manual_seed(step * 1000 + rank))


@worker_link.reexecutable
def train(generation: worker_link.Generation) -> None:
    rank = generation.rank
    dist.init_process_group("gloo")  # inside the block: it is made anew in each generation
    link = worker_link.connect()
    torch.manual_seed(0)
    model = torch.nn.Linear(32, 1)
    done = 0
    if generation.checkpoint is not None:
        done, path = generation.checkpoint
        model.load_state_dict(torch.load(path, weights_only=True))
    how = "goes on in place" if generation.in_place else "starts"
    print(f"rank {rank} pid {os.getpid()} version {generation.topology_version} {how} after step {done}", flush=True)
    for step in range(done + 1, args.steps + 1):
        loss = (model(batch(step, rank)) - batch(step, rank).sum(dim=1, keepdim=True)).square().mean()
        model.zero_grad()
        loss.backward()
        fail_once(rank)
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.data.sub_(parameter.grad, alpha=0.01 / generation.world_size)
        time.sleep(args.step_s)
        link.step(step)
        print(f"rank {rank} step {step} loss {loss.item():.6f}", flush=True)
        if step % args.checkpoint_every == 0:
            dist.barrier()
            if rank == 0:
                path = args.checkpoints / f"{step}.pt"
                torch.save(model.state_dict(), path.with_suffix(".partial"))
                path.with_suffix(".partial").rename(path)
                link.checkpoint_saved(step, path, writers=1)
    dist.barrier()
    dist.destroy_process_group()


def fail_once(rank: int) -> None:
    if args.faults is not None and (wanted := args.faults / f"raise_rank_{rank}").exists():
        wanted.unlink()
        raise OSError("the next batch could not be read (injected)")


args.checkpoints.mkdir(parents=True, exist_ok=True)
train()
