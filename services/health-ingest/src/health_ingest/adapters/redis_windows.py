"""Windows over peers in Redis or Valkey. Lost contents and a lost server are ordinary; reconnecting is owned here.

Every key has an end (TTL), and every value is bounded by whoever writes it: hashes by the nodes of a cohort, rows by
`keep`. No lock, no fence and no queue lies here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping
from typing import Any, TypeVar, cast

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from fault_contracts.ids import derived_id
from health_ingest.application.peer_ports import WindowsUnavailable
from service_kit.logging import get_logger
from service_kit.ports import Clock

TTL_S = 900
"""Of every key: a device that was silent for so long begins anew. 30 sweeps."""
ANSWER_LIMIT_S = 1.0
"""One round trip takes 0.1 ms on a network that works (reference numbers: 93-108 us); a sweep can do without."""
WAIT_S_MIN = 0.5
WAIT_S_MAX = 10.0
"""Between two tries to reach a server that is gone. Half a second after a restart, ten in a long outage: a third of a
sweep, so that at most one sweep more is missed."""

T = TypeVar("T")
_log = get_logger(__name__)


class RedisWindows:
    """application.peer_ports.PeerWindows."""

    def __init__(self, url: str, *, cluster: str, clock: Clock) -> None:
        # The client's own retries would hide an outage from whoever owns the wait; there is one owner.
        self._client: Any = Redis.from_url(
            url,
            socket_timeout=ANSWER_LIMIT_S,
            socket_connect_timeout=ANSWER_LIMIT_S,
            retry=Retry(NoBackoff(), 0),
            max_connections=16,
        )
        self._prefix = f"phx:peers:{derived_id(cluster, 'cluster')[:12]}"
        self._clock = clock
        self._wait_s = 0.0
        self._not_before_s = 0.0

    async def share(self, group: str, member: str, value: bytes) -> Mapping[str, bytes]:
        """See the port."""
        key = self._key(group)
        pipeline = self._client.pipeline(transaction=True)
        pipeline.hset(key, member, value)
        pipeline.expire(key, TTL_S)
        pipeline.hgetall(key)
        *_, members = await self._asked(pipeline.execute())
        return {name.decode(): raw for name, raw in cast(dict[bytes, bytes], members).items()}

    async def forget(self, group: str, members: Collection[str]) -> None:
        """See the port."""
        if members:
            await self._asked(self._client.hdel(self._key(group), *members))

    async def append(self, entries: Mapping[str, str], *, keep: int) -> Mapping[str, tuple[str, ...]]:
        """See the port."""
        pipeline = self._client.pipeline(transaction=False)
        for row, entry in entries.items():
            key = self._key(row)
            pipeline.rpush(key, entry)
            pipeline.ltrim(key, -keep, -1)
            pipeline.expire(key, TTL_S)
            pipeline.lrange(key, -keep, -1)
        answers = cast(list[Any], await self._asked(pipeline.execute()))
        return {row: tuple(raw.decode() for raw in answers[4 * place + 3]) for place, row in enumerate(entries)}

    async def stop(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _key(self, name: str) -> str:
        return f"{self._prefix}:{derived_id(name, 'window')}"

    async def _asked(self, asking: Awaitable[T]) -> T:
        now_s = self._clock.monotonic_s()
        if now_s < self._not_before_s:
            _dispose(asking)
            raise WindowsUnavailable(f"not tried again for {self._not_before_s - now_s:.1f} s")
        try:
            answer = await asking
        except (RedisError, OSError, TimeoutError) as error:
            self._wait_s = min(WAIT_S_MAX, max(WAIT_S_MIN, 2 * self._wait_s))
            self._not_before_s = self._clock.monotonic_s() + self._wait_s
            raise WindowsUnavailable(f"{type(error).__name__}: {error}"[:500]) from error
        if self._wait_s:
            self._wait_s = 0.0
            _log.info("peer_windows_reached_again")
        return answer


def _dispose(asking: Awaitable[Any]) -> None:
    """A coroutine that is never awaited would be told as a bug."""
    close = getattr(asking, "close", None)
    if close is not None:
        close()
