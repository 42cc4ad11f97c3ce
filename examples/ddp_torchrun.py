"""A training script as one writes it for torchrun; nothing in it knows Phalanx.

torchrun --nproc-per-node 4 examples/ddp_torchrun.py --checkpoint /tmp/ddp.pt
phalanx run --nproc-per-node 4 examples/ddp_torchrun.py --checkpoint /tmp/ddp.pt
"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint", required=True, help="file on a disk that all nodes share")
parser.add_argument("--steps", type=int, default=200)
parser.add_argument("--checkpoint-every", type=int, default=20)
parser.add_argument("--step-s", type=float, default=0.05, help="pause in each step, so that there is time to break it")
args = parser.parse_args()

rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

first = 1
if os.path.exists(args.checkpoint):
    saved = torch.load(args.checkpoint, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"] + 1
print(f"rank {rank} of {dist.get_world_size()} pid {os.getpid()} starts at step {first}", flush=True)

for step in range(first, args.steps + 1):
    inputs = torch.randn(16, 32, generator=torch.Generator().manual_seed(step * 1000 + rank))
    loss = (model(inputs) - inputs.sum(dim=1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(args.step_s)
    if step % args.checkpoint_every == 0:
        # All ranks have loaded by now, and a rank that dies while writing leaves the old file in place.
        if rank == 0:
            partial = args.checkpoint + ".partial"
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, partial)
            os.replace(partial, args.checkpoint)
        print(f"rank {rank} step {step} loss {loss.item():.4f}", flush=True)

dist.barrier()
dist.destroy_process_group()
