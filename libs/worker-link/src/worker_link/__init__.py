"""What a training script may import. Standard library only; everything works, as nothing, without Phalanx.

import worker_link

link = worker_link.connect()
resumed = worker_link.checkpoint()        # (step, path) or None
for step in range(resumed[0] + 1 if resumed else 0, steps):
    ...
    link.step(step)
    if link.checkpoint_requested(step) or step % every == 0:   # the node is about to be taken away
        with link.phase("checkpoint"):        # a long phase is no hang
            save(path)
        link.checkpoint_saved(step, path)

Slow ranks are found when the script tells its own work of a step: own_work.py, or for DistributedDataParallel on CPUs
`worker_link.watch_gradients(model)`.

With `worker_link.reexecutable` around the training function a restart keeps the process: block.py.
"""

from __future__ import annotations

import os
from typing import Any

from worker_link import own_work
from worker_link.block import reexecutable
from worker_link.client import WorkerLink
from worker_link.generation import Generation, checkpoint_of
from worker_link.messages import CheckpointRequest, RestartMode
from worker_link.process_link import connect_process
from worker_link.strike import RestartRequested
from worker_link.torch_abort import abort_process_groups

__all__ = [
    "CheckpointRequest",
    "Generation",
    "RestartMode",
    "RestartRequested",
    "WorkerLink",
    "abort_process_groups",
    "checkpoint",
    "connect",
    "reexecutable",
    "topology_version",
    "watch_gradients",
]


def connect() -> WorkerLink:
    """The link to this node's agent, one for the process; it does nothing when there is no agent (plain torchrun)."""
    return connect_process()


def checkpoint() -> tuple[int, str] | None:
    """Step and path of the checkpoint that every required rank confirmed, to resume from; None: start afresh."""
    return checkpoint_of(os.environ)


def topology_version() -> int:
    """Version of the gang's rank table this process works for; 0 outside Phalanx."""
    return int(os.environ.get("PHALANX_TOPOLOGY_VERSION") or "0")


def watch_gradients(model: Any) -> bool:
    """Measure each step's own work from the backward pass of a data-parallel model on CPUs.

    Returns:
        False without an agent, or when it cannot: a warning says why.
    """
    link = connect()
    return link.enabled and own_work.watch_gradients(link.work, model)
