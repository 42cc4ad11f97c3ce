"""The leader's copies of all records of nodes and of the breaker: loaded once, written by compare-and-set."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from recovery_planner.application.tending_ports import NodeLifeStore, StoredBreaker, StoredLife
from recovery_planner.domain.breaker import Breaker, Census
from recovery_planner.domain.known_bad import book_of
from recovery_planner.domain.node_life import NodeLife
from recovery_planner.domain.node_tend import new_life
from service_kit.errors import PermanentError
from service_kit.logging import get_logger

LOADED_AT_ONCE = 32

log = get_logger(__name__)


class NodeWard:
    """Records by node. One task at a time may change them."""

    def __init__(self, store: NodeLifeStore) -> None:
        self._store = store
        self._lives: dict[str, StoredLife] = {}
        self._breaker = StoredBreaker(breaker=Breaker(), revision=None)
        self._known: set[str] = set()
        self._unreadable: set[str] = set()
        self._bad: Mapping[str, str] | None = None

    async def load(self, known: Iterable[str]) -> None:
        """Everything, at the start of a lead.

        Raises:
            TransientError: the store did not answer.
        """
        self.forget()
        self._known.update(known)
        slots = asyncio.Semaphore(LOADED_AT_ONCE)

        async def load_one(node_id: str) -> None:
            async with slots:
                await self.reload(node_id)

        await asyncio.gather(*map(load_one, await self._store.node_ids()))
        await self.reload_breaker()

    async def reload(self, node_id: str) -> None:
        """One record as it is now. One that cannot be read keeps its node from being tended, and nothing else."""
        self._unreadable.discard(node_id)
        try:
            stored = await self._store.load(node_id)
        except PermanentError as error:
            log.error("node_life_unreadable", node_id=node_id, error=str(error))
            self._unreadable.add(node_id)
            return
        self._known.add(node_id)
        if stored is None:
            self._lives.pop(node_id, None)
        else:
            self._lives[node_id] = stored
        self._bad = None

    async def reload_breaker(self) -> None:
        """The breaker as it is now. A take that was written with its node, and not with the breaker, is counted too."""
        stored = await self._store.load_breaker() or StoredBreaker(breaker=Breaker(), revision=None)
        since = stored.breaker.since if stored.breaker.reason is not None else None
        takes = {*stored.breaker.takes, *self._takes_after(since)}
        self._breaker = replace(stored, breaker=replace(stored.breaker, takes=tuple(sorted(takes))))

    def forget(self) -> None:
        """Somebody else leads."""
        self._lives.clear()
        self._known.clear()
        self._unreadable.clear()
        self._breaker, self._bad = StoredBreaker(breaker=Breaker(), revision=None), None

    def know(self, node_ids: Iterable[str]) -> None:
        """Nodes that exist; the breaker's share is of these."""
        self._known.update(node_ids)

    def knows(self, node_id: str) -> bool:
        """It exists."""
        return node_id in self._known

    def get(self, node_id: str) -> NodeLife | None:
        """The record, or None."""
        stored = self._lives.get(node_id)
        return None if stored is None else stored.life

    def begin(self, node_id: str, now: datetime) -> NodeLife:
        """The record, or an empty one."""
        return self.get(node_id) or new_life(node_id, now)

    def is_readable(self, node_id: str) -> bool:
        """Its record is no newer version's."""
        return node_id not in self._unreadable

    def all(self) -> list[NodeLife]:
        """Every record."""
        return [stored.life for stored in self._lives.values()]

    @property
    def breaker(self) -> Breaker:
        """The breaker as this leader knows it."""
        return self._breaker.breaker

    @property
    def bad(self) -> Mapping[str, str]:
        """Identity of a device → the node that was given up with it."""
        if self._bad is None:
            self._bad = book_of(self.all())
        return self._bad

    def census(self) -> Census:
        """Nodes known, and those out of use. One that was replaced is no node of the cluster any more."""
        gone = sum(life.phase == "replaced" and life.wanted is None for life in self.all())
        out = sum(life.counts_as_out for life in self.all())
        return Census(known=max(len(self._known) - gone, out), out=out)

    def phases(self) -> Counter[str]:
        """How many nodes are in which phase."""
        return Counter(str(life.phase) for life in self.all())

    async def save(self, life: NodeLife) -> None:
        """Write a record.

        Raises:
            CompareAndSetLost: another planner wrote; what is here was read anew.
            TransientError: unknown whether it was written; what is here was dropped.
        """
        stored = self._lives.get(life.node_id)
        revision = await self._store.save(life, None if stored is None else stored.revision)
        if stored is None or stored.life.listed != life.listed:
            self._bad = None
        self._lives[life.node_id] = StoredLife(life=life, revision=revision)
        self._known.add(life.node_id)

    async def save_breaker(self, breaker: Breaker) -> None:
        """Write the breaker. Errors as in `save`."""
        if breaker == self._breaker.breaker:
            return
        revision = await self._store.save_breaker(breaker, self._breaker.revision)
        self._breaker = StoredBreaker(breaker=breaker, revision=revision)

    def _takes_after(self, since: datetime | None) -> set[datetime]:
        taken = {life.taken_at for life in self.all() if life.taken_at is not None}
        return {at for at in taken if since is None or at > since}
