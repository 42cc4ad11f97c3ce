"""The benchmark's training function as a re-executable block (BENCH_BLOCK=1) or as a plain script, otherwise the same.

A file raise_N in $BENCH_DIR makes rank N raise in its next step. Events as in training.py.
"""

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

import worker_link

STEP_PAUSE_S = 0.02
WIDTH = 256


def train(generation: worker_link.Generation) -> None:
    """Train until killed."""
    folder = Path(os.environ["BENCH_DIR"])
    log = os.open(folder / "events.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    begun_s = time.monotonic()
    rank = generation.rank

    def note(event: str, **fields: object) -> None:
        line = {"at_s": time.monotonic(), "event": event, "pid": os.getpid(), "rank": rank, "begun_s": begun_s}
        os.write(log, (json.dumps({**line, **fields}) + "\n").encode())

    note("entered")
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    note("group")
    link = worker_link.connect()
    weight = torch.ones(WIDTH, WIDTH)
    fault = folder / f"raise_{rank}"
    step = 0
    try:
        while True:
            step += 1
            dist.all_reduce(weight.clone())
            time.sleep(STEP_PAUSE_S)
            note("step", step=step)
            # Numbers that rise over the restarts: the same exception at the same step again would end the job.
            link.step(generation.restart_count * 1_000_000 + step)
            if fault.exists():
                fault.unlink()
                note("raised")
                raise OSError("injected by the benchmark")
    finally:
        os.close(log)


if __name__ == "__main__":
    if os.environ.get("BENCH_BLOCK") == "1":
        worker_link.reexecutable(train)()
    else:
        train(
            worker_link.Generation(
                rank=int(os.environ["RANK"]),
                local_rank=int(os.environ["LOCAL_RANK"]),
                world_size=int(os.environ["WORLD_SIZE"]),
                topology_version=worker_link.topology_version(),
                restart_count=int(os.environ["TORCHELASTIC_RESTART_COUNT"]),
                checkpoint=None,
            )
        )
