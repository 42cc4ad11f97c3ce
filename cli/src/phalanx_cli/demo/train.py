"""The demo's training script: run by `phalanx run -m phalanx_cli.demo.train` and, for the unfailed run, by torchrun.

It shows what a script has to do for a fast recovery: report steps, confirm checkpoints, and start from the checkpoint
that it is given. Under torchrun the link does nothing. Apart from the lines marked as injected faults it is an
ordinary loop.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import worker_link
from phalanx_cli.demo.model import Trainer
from phalanx_cli.demo.pace import enough_wanted, step_s_wanted
from phalanx_cli.demo.processes import write_process
from phalanx_cli.demo.shards import checkpoint_folder, load_shards, save_shard
from phalanx_cli.demo.weights import write_result
from phalanx_cli.demo.words import ALPHABET, as_tokens, read_words

LOSS_LOOK_STEPS = 5
"""The loss is looked at now and then: on a GPU every look waits for the device."""


def main() -> None:
    """Train to the last step and write what the final weights are."""
    options = parse_options()
    prepare()
    train(options, worker_link.checkpoint())


def prepare() -> None:
    """Settings of torch that hold for the life of the process."""
    torch.set_num_threads(1)  # ranks share the cores, and one thread sums in one order
    torch.use_deterministic_algorithms(mode=True)


def train(options: argparse.Namespace, given: tuple[int, str] | None) -> None:
    """One generation: from the given checkpoint, step and path, or from the beginning."""
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    write_process(options.work / "processes", topology_version=worker_link.topology_version(), rank=rank)
    trainer = Trainer(as_tokens(read_words()), seed=options.seed, rank=rank, world_size=world_size)
    state = (trainer.weights, trainer.mean, trainer.square)
    done = 0
    if given:
        done, path = given
        load_shards(Path(path), state)
    link = worker_link.connect()
    for step in range(done + 1, options.steps + 1):
        started_s = time.monotonic()
        batches = trainer.batches(step)
        if _wanted(options.faults, f"fail_rank_{rank}"):  # injected fault
            raise OSError(5, "Input/output error while reading the next batch (injected, passes on retry)")
        if _wanted(options.faults, f"cuda_rank_{rank}"):  # injected fault
            raise RuntimeError("CUDA error: an illegal memory access was encountered (injected, passes on retry)")
        if step == options.bug_at_step and rank == options.bug_rank:  # injected fault
            batches[0][0, 0] = len(ALPHABET)  # a character that the model does not know
        loss, ending = trainer.step(step, batches, vote=enough_wanted(options.work))
        link.step(step)
        shown = float("nan") if _wanted(options.faults, f"nan_rank_{rank}") else loss  # injected fault
        sys.stdout.write(f"rank {rank}: step {step}, loss {shown:.4f}\n")
        sys.stdout.flush()
        if step % LOSS_LOOK_STEPS == 0 and not math.isfinite(loss):
            raise FloatingPointError(f"the loss is {loss} at step {step}")
        if step % options.checkpoint_every == 0:
            if _wanted(options.faults, f"poison_rank_{rank}"):  # injected fault, in the part that this rank saves
                trainer.weights[len(trainer.weights) * rank // world_size] = math.nan
            folder = checkpoint_folder(options.work / "checkpoints", step, world_size=world_size)
            save_shard(folder, state, rank=rank, world_size=world_size)
            link.checkpoint_saved(step, str(folder), writers=world_size)
            digest = write_result(options.work, trainer.weights.numpy().tobytes(), rank=rank, step=step)
            sys.stdout.write(f"rank {rank}: weights of step {step}: sha256 {digest[:12]}\n")
            if ending:
                break  # at a step that the unfailed run has weights of, and all ranks at the same one
        # A step of a real model takes longer than this one; the pace leaves time to watch.
        time.sleep(max(0.0, step_s_wanted(options.work, options.step_s) - (time.monotonic() - started_s)))
    dist.barrier()
    dist.destroy_process_group()


def _wanted(folder: Path | None, fault: str) -> bool:
    """Whether to fail now: as a shaky file system does, this time, and not when the same step is tried again."""
    if folder is None or not (folder / fault).exists():
        return False
    (folder / fault).rename(folder / f"{fault}.done")
    return True


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Train the demo's model.")
    parser.add_argument("--work", type=Path, required=True, help="shared folder of checkpoints and the result")
    parser.add_argument("--steps", type=int, required=True, help="at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--step-s", type=float, default=0.0, help="shortest duration of a step in seconds")
    parser.add_argument(
        "--faults",
        type=Path,
        help="a file fail_rank_N or cuda_rank_N in this folder makes rank N fail once, nan_rank_N lets it print a NaN, "
        "poison_rank_N puts one into its weights before it saves them",
    )
    parser.add_argument(
        "--bug-at-step", type=int, help="at this step, in every try, --bug-rank meets an unknown character"
    )
    parser.add_argument("--bug-rank", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
