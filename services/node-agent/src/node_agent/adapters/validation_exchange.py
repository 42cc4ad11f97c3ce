"""Do members understand each other? A sum over the gang, and a ping-pong of two, with every value checked.

Imported by validation_worker only: it needs torch, and the agent must not.

Each test opens a process group of its own over a store of its own and gives it back: gloo closes all connections of a
group when one of them times out, so a member that hangs must not be in the same group as the next pair.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

EXACT_MAX = 1 << 24
"""Up to here float32 counts by one."""
POLL_S = 0.0005

Finding = dict[str, Any]
Drill = Callable[[Any], None]
"""Spoils or delays what a member is about to send; does nothing outside a drill."""


@contextmanager
def group_of(*, store: Any, rank: int, size: int, device: str, limit_s: float) -> Iterator[None]:
    """A process group for one test.

    Raises:
        RuntimeError: the others did not come in time, or cannot be reached.
    """
    is_gpu = device.startswith("cuda")
    dist.init_process_group(
        "nccl" if is_gpu else "gloo",
        store=store,
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=limit_s),
        device_id=torch.device(device) if is_gpu else None,
    )
    try:
        yield
    except BaseException:
        if is_gpu:  # a communicator with work that never ends cannot be destroyed, only aborted
            dist.distributed_c10d._abort_process_group()
        else:
            dist.destroy_process_group()
        raise
    dist.destroy_process_group()


def finish(work: Any, *, deadline: float) -> None:
    """Wait for one operation, never longer than the deadline (monotonic seconds).

    Raises:
        RuntimeError: it failed, or it is not done in time.
    """
    if dist.get_backend() != "nccl":
        work.wait(timedelta(seconds=max(deadline - time.monotonic(), 0.01)))
        return
    # NCCL's wait() only orders streams; whether the kernel ended has to be asked.
    while not work.is_completed():
        if time.monotonic() > deadline:
            raise RuntimeError("timed out on the device")
        time.sleep(POLL_S)


def check_sum(
    *, rank: int, size: int, device: str, size_bytes: int, repeats: int, limit_s: float, drill: Drill
) -> Finding:
    """all_reduce of whole numbers over a group that is open; every element has one right value."""
    deadline = time.monotonic() + limit_s
    weights = size * (size + 1) // 2
    cells = max(size_bytes // 4, 1)
    pattern = torch.arange(cells, device=device, dtype=torch.int64) % max(2, min(64, EXACT_MAX // weights))
    wanted = (pattern * weights).to(torch.float32)
    best_s = float("inf")
    for _ in range(repeats):
        data = (pattern * (rank + 1)).to(torch.float32)
        drill(data)
        began = time.monotonic()
        finish(dist.all_reduce(data, async_op=True), deadline=deadline)
        best_s = min(best_s, time.monotonic() - began)
        if not torch.equal(data, wanted):
            wrong = (data != wanted).nonzero()
            first = int(wrong[0])
            return {
                "end": "corrupt",
                "detail": f"{len(wrong)} of {cells} sums are wrong, the first at {first}: "
                f"{float(data[first]):g} instead of {float(wanted[first]):g}",
            }
    # Bus bandwidth of nccl-tests (doc/PERFORMANCE.md, AllReduce): 2 (n - 1) / n of the bytes cross each link.
    speed = cells * 4 * 2 * (size - 1) / size / max(best_s, 1e-9)
    return {"end": "ok", "detail": "", "values": {"bytes_per_s": speed}}


def check_pair(*, rank: int, device: str, size_bytes: int, repeats: int, limit_s: float, drill: Drill) -> Finding:
    """Both directions in turn over a group of two that is open. The sender's clock runs until the receiver has said so.

    Returns:
        end, detail, and how fast this member could send.
    """
    deadline = time.monotonic() + limit_s
    best_s = float("inf")
    problem = ""
    for number in range(repeats):
        for sender in (0, 1):
            data = _cells(size_bytes, device, seed=2 * number + sender)
            receipt = torch.zeros(1, dtype=torch.int64, device=device)
            if sender == rank:
                began = time.monotonic()
                drill(data)
                finish(_work(dist.isend(data, 1 - rank)), deadline=deadline)
                finish(_work(dist.irecv(receipt, 1 - rank)), deadline=deadline)
                best_s = min(best_s, time.monotonic() - began)
                continue
            came = torch.zeros_like(data)
            finish(_work(dist.irecv(came, 1 - rank)), deadline=deadline)
            finish(_work(dist.isend(receipt, 1 - rank)), deadline=deadline)
            if not problem and not torch.equal(came, data):
                wrong = (came != data).nonzero()
                problem = f"{len(wrong)} of {len(data)} cells came wrong, the first at {int(wrong[0])}"
    if problem:
        return {"end": "corrupt", "detail": problem}
    return {"end": "ok", "detail": "", "values": {"bytes_per_s": size_bytes / max(best_s, 1e-9)}}


def _work(work: Any) -> Any:
    assert work is not None, "this member is in the group"
    return work


def _cells(size_bytes: int, device: str, *, seed: int) -> Any:
    cells = torch.arange(max(size_bytes // 8, 1), dtype=torch.int64, device=device)
    return (cells + seed) * 0x5DEECE66D + 0xB  # the multiplier of drand48: neighbours differ in many bits
