"""What the planner's use cases ask of the world beside the bus and the clock. Adapters carry the same names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fault_contracts.hardware import NodeStanding
from recovery_planner.domain.checkpoint_history import CheckpointHistory
from recovery_planner.domain.gang import Gang


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGang:
    """A record with the revision that compare-and-set needs."""

    gang: Gang
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHistory:
    """Confirmed checkpoints of a job with their revision."""

    history: CheckpointHistory
    revision: int


class GangStore(Protocol):
    """Gang records by job_id."""

    async def load(self, job_id: str) -> StoredGang | None:
        """The newest record, or None.

        Raises:
            ContractViolation: written by a newer version, or damaged.
        """
        ...

    async def revision(self, job_id: str) -> int | None:
        """Revision of the newest record, without decoding it; None when there is none."""
        ...

    async def save(self, gang: Gang, revision: int | None) -> int:
        """Write over exactly this revision (None: it must not exist yet) and return the new one.

        Raises:
            CompareAndSetLost: somebody else wrote first.
            BusUnavailable: unknown whether it was written.
        """
        ...

    async def delete(self, job_id: str) -> None:
        """Remove a record."""
        ...

    async def job_ids(self) -> list[str]:
        """All jobs that have a record."""
        ...


class CheckpointStore(Protocol):
    """Confirmed checkpoints by job_id. Errors as in GangStore."""

    async def load(self, job_id: str) -> StoredHistory | None:
        """The newest record, or None."""
        ...

    async def save(self, job_id: str, history: CheckpointHistory, revision: int | None) -> int:
        """Write over exactly this revision and return the new one."""
        ...

    async def delete(self, job_id: str) -> None:
        """Remove a record."""
        ...


class NodeStandingStore(Protocol):
    """Standings of nodes, as health-ingest keeps them."""

    async def load(self, node_id: str) -> NodeStanding | None:
        """The newest, or None: nobody has told anything of this node.

        Raises:
            ContractViolation: written by a newer version, or damaged.
        """
        ...

    async def node_ids(self) -> list[str]:
        """All nodes that a standing is kept of."""
        ...


class Failpoints(Protocol):
    """Named places where a test may end this process."""

    def reach(self, name: str) -> None:
        """Say that the program is at `name`."""
        ...


class GangWatcher(Protocol):
    """Is told of every record as the leader knows it; must not wait."""

    def observe(self, gang: Gang) -> None:
        """Take note."""
        ...

    def forget(self, job_id: str) -> None:
        """This job needs no more attention here: it ended, or somebody else leads."""
        ...


class LeaderView(Protocol):
    """What the use cases may know about leadership."""

    @property
    def epoch(self) -> int:
        """Epoch of our commands; 0 while somebody else leads."""
        ...

    def lose(self) -> None:
        """The server refused our epoch."""
        ...
