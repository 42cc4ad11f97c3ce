"""What somebody who watches the running ranks is told of their group. AgentLife.watches lists who is told."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from node_agent.application.ports import WorkerExit
from node_agent.domain.worker_group import WorkerGroup
from training_topology.identity import Rank


class GroupWatch(Protocol):
    """Called on the event loop, in the order of the events; must return at once and must not raise."""

    def on_begun(self, group: WorkerGroup, continuing: Collection[Rank]) -> None:
        """A generation begins; the ranks in `continuing` keep their process. Fresh ones do not run yet."""

    def on_started(self) -> None:
        """Every rank of the generation runs."""

    def on_exit(self, ended: WorkerExit) -> None:
        """A worker ended, of whatever generation; everything that it printed was read before."""

    def on_stopping(self) -> None:
        """The ranks are being stopped, or all are through: from now on, silence means nothing."""
