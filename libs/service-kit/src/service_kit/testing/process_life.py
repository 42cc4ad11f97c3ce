"""One life of a service process as a simulator sees it: it may die before or after any of its effects.

A service touches the world through its bus, its buckets and its clock. These stand in front of the fakes, count the
touches and end the life at the one that was chosen: nothing behind it happens, and no call of a dead process returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random  # noqa: TID251 - trouble comes from a seed, so that a failing run can be repeated
from typing import Any, TypeVar

from fault_contracts.envelope import Envelope
from fault_contracts.payload import Payload
from service_kit.errors import BusUnavailable
from service_kit.ports import BatchHandler, Clock, Delivery, Entry, Handler, KeyValue, Subscription
from service_kit.testing.memory_broker import MemoryBroker
from service_kit.testing.memory_bus import MemoryBus

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTrouble:
    """What goes wrong with a bucket, as probabilities per call.

    Attributes:
        failed: the call does nothing and raises BusUnavailable.
        ack_lost: a write takes effect and raises BusUnavailable all the same.
    """

    failed: float = 0.0
    ack_lost: float = 0.0


class ProcessLife:
    """Give `bus`, `clock` and `bucket(...)` to a service; `kill()` is kill -9.

    Attributes:
        name: of the process on the bus, and in the broker's `partitioned`.
        dead: it does nothing any more.
        touches: calls of the world so far; each counts twice, before and after.
        on_death: called once.
    """

    def __init__(self, broker: MemoryBroker, *, name: str, random: Random, trouble: StoreTrouble | None = None) -> None:
        self.name = name
        self.broker = broker
        self.random = random
        self.trouble = trouble or StoreTrouble()
        self.dead = False
        self.touches = 0
        self.on_death: list[Callable[[], None]] = []
        self._buried = False
        self._dies_at: int | None = None
        self._memory_bus = MemoryBus(broker, name=name)
        self.bus = _MortalBus(self, self._memory_bus)
        self.clock = _MortalClock(self, broker.clock)

    def bucket(self, kept: KeyValue) -> KeyValue:
        """A bucket as this process sees it."""
        return _MortalKeyValue(self, kept)

    def die_after(self, touches: int | None) -> None:
        """Die at the n-th touch from now; None: not at all."""
        self._dies_at = None if touches is None else self.touches + touches

    def kill(self) -> None:
        """End it now."""
        if self.dead:
            return
        self.dead = True
        self._memory_bus.kill()
        for told in self.on_death:
            told()

    def bury(self) -> None:
        """The test is over: let the tasks of a dead process end."""
        self._buried = True
        self.kill()

    async def touch(self) -> None:
        """A place where the process may die. Does not return in a dead one."""
        self.touches += 1
        if self._dies_at is not None and self.touches >= self._dies_at:
            self.kill()
        if not self.dead:
            return
        if self._buried:
            raise asyncio.CancelledError
        await asyncio.get_running_loop().create_future()

    async def between(self, call: Callable[[], Awaitable[T]]) -> T:
        """Do something to the world, with a chance to die before it and after it."""
        await self.touch()
        done = await call()
        await self.touch()
        return done


class _MortalClock:
    """service_kit.ports.Clock; a dead process never wakes up."""

    def __init__(self, life: ProcessLife, clock: Clock) -> None:
        self._life = life
        self._clock = clock
        self.now: Callable[[], datetime] = clock.now
        self.monotonic_s: Callable[[], float] = clock.monotonic_s

    async def sleep(self, duration_s: float) -> None:
        """See the port."""
        await self._clock.sleep(duration_s)
        if self._life.dead:
            await self._life.touch()


class _MortalSubscription:
    """service_kit.ports.Subscription."""

    def __init__(self, life: ProcessLife, inner: Subscription) -> None:
        self._life = life
        self._inner = inner

    async def stop(self) -> None:
        """See the port."""
        await self._life.touch()
        await self._inner.stop()


class _MortalBus:
    """service_kit.ports.Bus."""

    def __init__(self, life: ProcessLife, bus: MemoryBus) -> None:
        self._life = life
        self._bus = bus

    async def publish(self, envelope: Envelope[Any], *, epoch: int | None = None) -> int:
        """See the port."""
        return await self._life.between(lambda: self._bus.publish(envelope, epoch=epoch))

    async def consume(
        self,
        *,
        durable: str,
        messages: Sequence[type[Payload]],
        handler: Handler,
        from_now: bool = False,
        reclaim: bool = False,
    ) -> Subscription:
        """See the port."""

        async def handle(delivery: Delivery) -> None:
            await handler(delivery)
            await self._life.touch()  # between the last effect and the acknowledgement

        await self._life.touch()
        inner = await self._bus.consume(
            durable=durable, messages=messages, handler=handle, from_now=from_now, reclaim=reclaim
        )
        return _MortalSubscription(self._life, inner)

    async def consume_batches(
        self,
        *,
        durable: str,
        messages: Sequence[type[Payload]],
        handler: BatchHandler,
        batch_max: int,
        reclaim: bool = False,
    ) -> Subscription:
        """See the port."""
        await self._life.touch()
        inner = await self._bus.consume_batches(
            durable=durable, messages=messages, handler=handler, batch_max=batch_max, reclaim=reclaim
        )
        return _MortalSubscription(self._life, inner)

    async def listen(
        self, *, messages: Sequence[type[Payload]], handler: Handler, key: str | None = None, share: str = ""
    ) -> Subscription:
        """See the port."""
        await self._life.touch()
        inner = await self._bus.listen(messages=messages, handler=handler, key=key, share=share)
        return _MortalSubscription(self._life, inner)

    async def last_commands(self, *, key: str, messages: Sequence[type[Payload]]) -> list[Delivery]:
        """See the port."""
        return await self._life.between(lambda: self._bus.last_commands(key=key, messages=messages))

    async def ask(self, *, what: str, key: str, body: bytes = b"", timeout_s: float) -> bytes | None:
        """See the port."""
        return await self._life.between(lambda: self._bus.ask(what=what, key=key, body=body, timeout_s=timeout_s))

    async def answer(self, *, what: str, key: str, reply: Callable[[bytes], Awaitable[bytes]]) -> Subscription:
        """See the port."""
        await self._life.touch()
        return _MortalSubscription(self._life, await self._bus.answer(what=what, key=key, reply=reply))

    async def take_epoch(self, envelope: Envelope[Any]) -> int:
        """See the port."""
        return await self._life.between(lambda: self._bus.take_epoch(envelope))


class _MortalKeyValue:
    """service_kit.ports.KeyValue; a process that is cut off reaches no bucket either."""

    def __init__(self, life: ProcessLife, kept: KeyValue) -> None:
        self._life = life
        self._kept = kept

    async def get(self, key: str) -> Entry | None:
        """See the port."""
        return await self._life.between(lambda: self._call(lambda: self._kept.get(key)))

    async def create(self, key: str, value: bytes) -> int:
        """See the port."""
        return await self._life.between(lambda: self._call(lambda: self._kept.create(key, value), writes=True))

    async def update(self, key: str, value: bytes, revision: int) -> int:
        """See the port."""
        return await self._life.between(
            lambda: self._call(lambda: self._kept.update(key, value, revision), writes=True)
        )

    async def delete(self, key: str) -> None:
        """See the port."""
        await self._life.between(lambda: self._call(lambda: self._kept.delete(key), writes=True))

    async def keys(self) -> list[str]:
        """See the port."""
        return await self._life.between(lambda: self._call(self._kept.keys))

    async def _call(self, call: Callable[[], Awaitable[T]], *, writes: bool = False) -> T:
        life, trouble = self._life, self._life.trouble
        await asyncio.sleep(0)
        life.broker.reachable(life.name, "the store")
        if trouble.failed > 0 and life.random.random() < trouble.failed:
            raise BusUnavailable("the store did not answer")
        done = await call()
        if writes and trouble.ack_lost > 0 and life.random.random() < trouble.ack_lost:
            raise BusUnavailable("the store took it, but its acknowledgement was lost")
        return done
