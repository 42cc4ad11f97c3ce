"""What the care of nodes asks of the world: their records, and a pool that nodes come from and go to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from recovery_planner.domain.breaker import Breaker
from recovery_planner.domain.node_life import NodeLife


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLife:
    """A record with the revision that compare-and-set needs; None: it is not stored yet."""

    life: NodeLife
    revision: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBreaker:
    """The same for the breaker."""

    breaker: Breaker
    revision: int | None


class NodeLifeStore(Protocol):
    """Records of nodes that something was said against, by node_id. Errors as in ports.GangStore."""

    async def load(self, node_id: str) -> StoredLife | None:
        """The newest record, or None."""
        ...

    async def save(self, life: NodeLife, revision: int | None) -> int:
        """Write over exactly this revision (None: it must not exist yet) and return the new one."""
        ...

    async def node_ids(self) -> list[str]:
        """All nodes that have a record."""
        ...

    async def load_breaker(self) -> StoredBreaker | None:
        """The newest record of the breaker, or None."""
        ...

    async def save_breaker(self, breaker: Breaker, revision: int | None) -> int:
        """As `save`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolAnswer:
    """What became of a request so far. Both empty: it is not decided."""

    node_id: str = ""
    """It is delivered under this name."""
    failed: str = ""
    """It will not be answered, and why."""


class NodePool(Protocol):
    """Where nodes come from and go to. Every call may come again and means the same: a planner may die between any two.

    TransientError: unknown what came of it; it is called again. PermanentError: refused for good.
    """

    async def retire(self, node_id: str, *, request_id: str, reason: str) -> None:
        """Give a node back."""
        ...

    async def acquire(self, *, request_id: str, labels: Mapping[str, str]) -> PoolAnswer:
        """Ask for a node with these labels, or ask what became of the request."""
        ...


class NodeFigures(Protocol):
    """Is told how many nodes are in which phase."""

    def show(self, phases: Mapping[str, int], breaker: str) -> None:
        """Take note; must not wait."""
        ...


class NoFigures:
    """For whoever shows none."""

    def show(self, phases: Mapping[str, int], breaker: str) -> None:
        """See NodeFigures."""
