"""Lives of nodes, and the breaker, in one key-value bucket. Keys: `node/NAME`, and `breaker`."""

from __future__ import annotations

from recovery_planner.adapters.life_codec import decode_breaker, decode_life, encode_breaker, encode_life
from recovery_planner.application.tending_ports import StoredBreaker, StoredLife
from recovery_planner.domain.breaker import Breaker
from recovery_planner.domain.node_life import NodeLife
from service_kit.ports import KeyValue

NODE = "node/"
BREAKER = "breaker"


class KvNodeLives:
    """application.tending_ports.NodeLifeStore on a bucket."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def load(self, node_id: str) -> StoredLife | None:
        """See the port."""
        entry = await self._bucket.get(NODE + node_id)
        return None if entry is None else StoredLife(life=decode_life(entry.value), revision=entry.revision)

    async def save(self, life: NodeLife, revision: int | None) -> int:
        """See the port."""
        return await self._write(NODE + life.node_id, encode_life(life), revision)

    async def node_ids(self) -> list[str]:
        """See the port."""
        return [key.removeprefix(NODE) for key in await self._bucket.keys() if key.startswith(NODE)]

    async def load_breaker(self) -> StoredBreaker | None:
        """See the port."""
        entry = await self._bucket.get(BREAKER)
        return None if entry is None else StoredBreaker(breaker=decode_breaker(entry.value), revision=entry.revision)

    async def save_breaker(self, breaker: Breaker, revision: int | None) -> int:
        """See the port."""
        return await self._write(BREAKER, encode_breaker(breaker), revision)

    async def _write(self, key: str, value: bytes, revision: int | None) -> int:
        if revision is None:
            return await self._bucket.create(key, value)
        return await self._bucket.update(key, value, revision)
