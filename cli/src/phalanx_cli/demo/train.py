"""The demo's training script: run by `phalanx run -m phalanx_cli.demo.train` and, for the unfailed run, by torchrun.

It shows what a script has to do for a fast recovery: report steps, confirm checkpoints, and start from the checkpoint
that it is given. Under torchrun the link does nothing. Apart from the two lines marked as injected faults it is an
ordinary loop.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import worker_link
from phalanx_cli.demo.model import Trainer
from phalanx_cli.demo.shards import checkpoint_folder, load_shards, save_shard
from phalanx_cli.demo.words import ALPHABET, as_tokens, read_words


def main() -> None:
    """Train to the last step and write what the final weights are."""
    options = _parser().parse_args()
    torch.set_num_threads(1)  # ranks share the cores, and one thread sums in one order
    torch.use_deterministic_algorithms(mode=True)
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    trainer = Trainer(as_tokens(read_words()), seed=options.seed, rank=rank, world_size=world_size)
    state = (trainer.weights, trainer.mean, trainer.square)

    done = 0
    if given := worker_link.checkpoint():
        done, path = given
        load_shards(Path(path), state, world_size=world_size)
    link = worker_link.connect()
    loss = float("nan")
    for step in range(done + 1, options.steps + 1):
        started_s = time.monotonic()
        batch = trainer.batch(step)
        _fail_once(options.faults, rank)  # injected fault
        if step == options.bug_at_step and rank == options.bug_rank:  # injected fault
            batch[0, 0] = len(ALPHABET)  # a character that the model does not know
        loss = trainer.step(step, batch)
        link.step(step)
        if step % options.checkpoint_every == 0:
            folder = checkpoint_folder(options.work / "checkpoints", step)
            save_shard(folder, state, rank=rank, world_size=world_size)
            link.checkpoint_saved(step, str(folder), writers=world_size)
        # A step of a real model takes longer than this one; the pace leaves time to watch.
        time.sleep(max(0.0, options.step_s - (time.monotonic() - started_s)))
    _write_result(options.work / "final", trainer, rank=rank, steps=options.steps, loss=loss)
    dist.barrier()
    dist.destroy_process_group()


def _fail_once(folder: Path | None, rank: int) -> None:
    """Fail as a read from a shaky file system does: this time, and not when the same step is tried again."""
    if folder is None:
        return
    wanted = folder / f"fail_rank_{rank}"
    if wanted.exists():
        wanted.rename(folder / f"failed_rank_{rank}")
        raise OSError(5, "Input/output error while reading the next batch (injected, passes on retry)")


def _write_result(folder: Path, trainer: Trainer, *, rank: int, steps: int, loss: float) -> None:
    """Every rank writes its own, so that ranks that drifted apart would show."""
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(trainer.weights.numpy().tobytes()).hexdigest()
    result = {"rank": rank, "steps": steps, "loss": loss, "weights_sha256": digest}
    partial = folder / f"rank_{rank}.json.partial{os.getpid()}"
    partial.write_text(json.dumps(result), encoding="utf-8")
    partial.rename(folder / f"rank_{rank}.json")
    sys.stdout.write(f"rank {rank}: step {steps}, loss {loss:.4f}, weights {digest[:12]}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Train the demo's model.")
    parser.add_argument("--work", type=Path, required=True, help="shared folder of checkpoints and the result")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--checkpoint-every", type=int, default=20, metavar="STEPS")
    parser.add_argument("--step-s", type=float, default=0.0, help="shortest duration of a step in seconds")
    parser.add_argument("--faults", type=Path, help="a file fail_rank_N in this folder makes rank N fail once")
    parser.add_argument(
        "--bug-at-step", type=int, help="at this step, in every try, --bug-rank meets an unknown character"
    )
    parser.add_argument("--bug-rank", type=int, default=1)
    return parser


if __name__ == "__main__":
    main()
