"""The training function that all contestants run alike: as little as a training step can be.

Every event is one JSON line, appended in one write to $BENCH_DIR/events.jsonl with CLOCK_MONOTONIC, which all
processes of a machine share: how often the driver looks does not enter the figures. A file raise_N in $BENCH_DIR makes
rank N raise in its next step.

No torch.optim and no DistributedDataParallel: their first use imports torch._dynamo, which takes seconds for four ranks
on two cores and would hide what is measured.
"""

import datetime
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import worker_link

STEP_PAUSE_S = 0.02
"""Stands for the accelerator's time in a step; the same for all."""
CHECKPOINT_EVERY = 20
WIDTH = 256
LAYERS = 4


def run() -> None:
    """Train until killed, from the newest checkpoint."""
    folder = Path(os.environ["BENCH_DIR"])
    log = os.open(folder / "events.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        _train(folder, log)
    finally:
        os.close(log)


def _train(folder: Path, log: int) -> None:
    rank = int(os.environ["RANK"])
    begun_s = time.monotonic()

    def note(event: str, **fields: object) -> None:
        line = {"at_s": time.monotonic(), "event": event, "pid": os.getpid(), "rank": rank, **fields}
        os.write(log, (json.dumps(line) + "\n").encode())

    note("entered")
    torch.set_num_threads(1)
    limit_s = float(os.environ.get("BENCH_GROUP_TIMEOUT_S") or 1800)  # gloo's default
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=limit_s))
    note("group")
    torch.manual_seed(0)
    weights = [torch.randn(WIDTH, WIDTH) / WIDTH**0.5 for _ in range(LAYERS)]
    checkpoint = folder / "checkpoint.pt"
    done = 0
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        weights, done = saved["weights"], saved["step"]
    for weight in weights:
        weight.requires_grad_()
    link = worker_link.connect()
    heartbeat = _nvrx_heartbeat()
    inputs = torch.randn(32, WIDTH)
    fault = folder / f"raise_{rank}"
    step = done
    while True:
        step += 1
        outputs = inputs
        for weight in weights:
            outputs = torch.tanh(outputs @ weight)
        gradients = torch.autograd.grad(outputs.square().mean(), weights)
        if fault.exists():
            _raise(fault, note)
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        with torch.no_grad():
            for weight, part in zip(weights, flat.split(WIDTH * WIDTH), strict=True):
                weight.sub_(part.view_as(weight), alpha=1e-3)
        time.sleep(STEP_PAUSE_S)
        note("step", step=step, begun_s=begun_s)
        link.step(step)
        if heartbeat is not None:
            heartbeat.send_heartbeat()
        if rank == 0 and step % CHECKPOINT_EVERY == 0:
            partial = checkpoint.with_suffix(".partial")
            torch.save({"weights": [weight.detach() for weight in weights], "step": step}, partial)
            partial.rename(checkpoint)


def _raise(fault: Path, note: Any) -> None:
    """An exception of a type of its own: the same one twice at the same step would be the script's own fault."""
    kind = type(f"Injected{fault.read_text(encoding='ascii')}", (OSError,), {})
    fault.unlink()
    note("raised")
    raise kind("injected by the benchmark")


def _nvrx_heartbeat() -> Any:
    """ft_launcher's own way to see a hang; None under the others."""
    if os.environ.get("BENCH_NVRX") != "1":
        return None
    from nvidia_resiliency_ext.fault_tolerance import RankMonitorClient

    client = RankMonitorClient()
    client.init_workload_monitoring()
    return client


if __name__ == "__main__":
    if os.environ.get("BENCH_BLOCK") == "1":
        worker_link.reexecutable(lambda _generation: run())()
    else:
        run()
