"""Port of whoever asks the ranks of this node for a checkpoint."""

from __future__ import annotations

from typing import Protocol

from node_agent.application.ports import WorkerHandle
from worker_link.messages import CheckpointRequest


class CheckpointLine(Protocol):
    """The way to a rank's link for reports."""

    def links(self, handle: WorkerHandle) -> bool:
        """Whether the rank uses worker-link."""

    def send(self, handle: WorkerHandle, message: CheckpointRequest) -> bool:
        """Ask the rank for a checkpoint; False when it cannot be reached."""
