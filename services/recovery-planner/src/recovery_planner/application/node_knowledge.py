"""What Phalanx knows about nodes, kept for whoever mirrors it: read once, then again for each node that is spoken of.

Everything is read anew from time to time: a message may be lost, a copy may not stay wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fault_contracts.hardware import NodeStanding, NodeStandingChanged
from fault_contracts.remediation import NodeTended
from recovery_planner.application.ports import NodeStandingStore
from recovery_planner.application.tending_ports import NodeLifeStore
from recovery_planner.domain.node_life import NodeLife
from service_kit.errors import PermanentError
from service_kit.logging import get_logger
from service_kit.ports import Clock, Delivery

ALL_EVERY_S = 300.0
T = TypeVar("T")

log = get_logger(__name__)


class NodeKnowledge:
    """Standings and lives by node."""

    def __init__(
        self, standings: NodeStandingStore, lives: NodeLifeStore, clock: Clock, *, changed: Callable[[], None]
    ) -> None:
        self._standings_store = standings
        self._lives_store = lives
        self._clock = clock
        self._changed = changed
        self._standings: dict[str, NodeStanding] = {}
        self._lives: dict[str, NodeLife] = {}
        self._spoken_of: set[str] = set()
        self._all_at_s: float | None = None

    def standing(self, node_id: str) -> NodeStanding | None:
        """None: nobody has told anything of it."""
        return self._standings.get(node_id)

    def life(self, node_id: str) -> NodeLife | None:
        """None: nothing was ever said against it."""
        return self._lives.get(node_id)

    async def hear(self, delivery: Delivery) -> None:
        """One message about a node; what is true is read from the records."""
        payload = delivery.envelope.data
        if isinstance(payload, NodeStandingChanged | NodeTended):
            self._spoken_of.add(payload.node_id)
            self._changed()

    async def refresh(self) -> None:
        """Read what may have changed.

        Raises:
            TransientError: the store did not answer; what was known stays, and is asked for again.
        """
        now_s = self._clock.monotonic_s()
        if self._all_at_s is None or now_s - self._all_at_s >= ALL_EVERY_S:
            names = {*await self._standings_store.node_ids(), *await self._lives_store.node_ids()}
            self._spoken_of |= names | set(self._standings) | set(self._lives)
            self._all_at_s = now_s
        for node_id in sorted(self._spoken_of):
            await self._read(node_id)
            self._spoken_of.discard(node_id)

    async def _read(self, node_id: str) -> None:
        try:
            standing = await self._standings_store.load(node_id)
            stored = await self._lives_store.load(node_id)
        except PermanentError as error:
            # A record of another version says nothing; what was known before may be wrong by now.
            log.error("node_record_unreadable", node_id=node_id, error=str(error))
            standing, stored = None, None
        _put(self._standings, node_id, standing)
        _put(self._lives, node_id, None if stored is None else stored.life)


def _put(known: dict[str, T], node_id: str, value: T | None) -> None:
    if value is None:
        known.pop(node_id, None)
    else:
        known[node_id] = value
