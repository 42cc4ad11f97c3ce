"""What a training script may import. Standard library only; everything works, as nothing, without Phalanx.

import worker_link

link = worker_link.connect()
resumed = worker_link.checkpoint()        # (step, path) or None
for step in range(resumed[0] + 1 if resumed else 0, steps):
    ...
    link.step(step)
    link.checkpoint_saved(step, path)
"""

from __future__ import annotations

import os

from worker_link.client import WorkerLink
from worker_link.messages import CheckpointRequest, RestartMode

__all__ = ["CheckpointRequest", "RestartMode", "WorkerLink", "checkpoint", "connect", "topology_version"]


def connect() -> WorkerLink:
    """The link to this node's agent, from the environment; it does nothing when there is no agent (plain torchrun)."""
    return WorkerLink(
        socket_path=os.environ.get("PHALANX_WORKER_SOCKET") or None,
        rank=int(os.environ.get("RANK", "0")),
        topology_version=topology_version(),
        token=os.environ.get("PHALANX_WORKER_TOKEN", ""),
    )


def checkpoint() -> tuple[int, str] | None:
    """Step and path of the checkpoint that every required rank confirmed, to resume from; None: start afresh."""
    step, path = os.environ.get("PHALANX_CHECKPOINT_STEP"), os.environ.get("PHALANX_CHECKPOINT_PATH")
    if not step or not path:
        return None
    return int(step), path


def topology_version() -> int:
    """Version of the gang's rank table this process was started for; 0 outside Phalanx."""
    return int(os.environ.get("PHALANX_TOPOLOGY_VERSION") or "0")
