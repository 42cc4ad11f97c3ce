"""What hang detection asks of the machine: states and usage of ranks, and their stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from node_agent.application.ports import WorkerHandle
from node_agent.domain.rank_evidence import ProcessState
from node_agent.domain.rank_looks import ProcessUsage
from training_topology.identity import Rank


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSample:
    """One cheap look. `cpu_s` is of all threads, ended ones included."""

    state: ProcessState
    cpu_s: float


class ProcessReader(Protocol):
    """Reads the kernel's account of a rank. None: the process is gone, or another one has its pid."""

    def sample(self, handle: WorkerHandle) -> ProcessSample | None:
        """State and CPU time; called several times a second for each rank."""

    def usage(self, handle: WorkerHandle) -> ProcessUsage | None:
        """Everything it used; called when a rank is suspected."""


class StackTaker(Protocol):
    """Asks ranks for a dump of their stacks."""

    async def take(self, handles: Sequence[WorkerHandle], *, wait_s: float) -> Mapping[Rank, str]:
        """The text of a fresh dump of each rank that wrote one in time, main thread included.

        A rank that is stopped, or that cannot dump (a program of its own, a script that replaced itself by exec), is
        not among them.
        """


class LastLines(Protocol):
    """The last lines of stderr of a rank (WorkerProcesses has them)."""

    def stderr_tail(self, rank: Rank) -> tuple[str, ...]:
        """Oldest first."""
