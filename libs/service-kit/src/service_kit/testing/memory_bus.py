"""service_kit.ports.Bus on a MemoryBroker: same promises as the real one, and the trouble that the broker makes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fault_contracts.asks import ask_spec
from fault_contracts.commands import LeaderEpoch
from fault_contracts.envelope import Envelope, EnvelopeError
from fault_contracts.payload import Payload
from fault_contracts.registry import Stream, spec_of
from fault_contracts.subjects import Kind
from service_kit.delivery import TRIES_MAX, GiveUp, dead_letter, decode, judge_failure, message_id
from service_kit.errors import BusUnavailable, ContractViolation, PermanentError
from service_kit.keyed_work import KeyedWork
from service_kit.ports import BatchHandler, Delivery, Handler, Subscription
from service_kit.testing.memory_answering import Answering
from service_kit.testing.memory_batches import one_by_one
from service_kit.testing.memory_broker import MemoryBroker
from service_kit.testing.memory_records import Receiver, Record

STOP_LIMIT_S = 5.0


class MemoryBus:
    """One process's bus. `kill()` ends it as kill -9 would; make a new one on the same broker for its next life."""

    def __init__(self, broker: MemoryBroker, *, cluster: str = "local", name: str = "test") -> None:
        self._broker = broker
        self._cluster = cluster
        self._name = name
        self._running: list[_Receiving | Answering] = []
        self._epoch_subject = str(spec_of(LeaderEpoch).subject(cluster, "planner"))
        self._killed = False

    def kill(self) -> None:
        """Stop at once: nothing is acknowledged or answered any more."""
        self._killed = True
        for running in self._running:
            running.kill()

    async def publish(self, envelope: Envelope[Any], *, epoch: int | None = None) -> int:
        """See the port."""
        subject = str(envelope.channel(self._cluster))
        try:
            body = envelope.to_bytes()
        except EnvelopeError as error:
            raise ContractViolation(str(error)) from error
        spec = spec_of(type(envelope.data))
        await self._on_the_wire(f"publish on {subject}")
        if spec.stream is None:
            self._broker.send(subject, body)
            return 0
        if (lost := self._broker.chance(self._broker.trouble.publish_lost)) and self._broker.chance(0.5):
            raise BusUnavailable(f"publish on {subject}: not stored")
        fence = None if epoch is None else (self._epoch_subject, epoch)
        sequence = self._broker.store(
            spec.stream, subject, body, message_id=message_id(self._cluster, envelope), fence=fence
        )
        if lost:
            raise BusUnavailable(f"publish on {subject}: stored, but the acknowledgement was lost")
        return sequence

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
        await self._on_the_wire(f"consume {durable}")
        await self._end_if_killed()  # killed on the way: its connection is closed, and a server delivers nothing to it
        streams: set[Stream] = set()
        for model in messages:
            stream = spec_of(model).stream
            if stream is None:
                raise PermanentError(f"{spec_of(model).type} is not stored: listen to it")
            streams.add(stream)
        receiving = _Receiving(
            self._broker,
            owner=self._name,
            cluster=self._cluster,
            consumer=durable,
            patterns=tuple(spec_of(model).pattern(self._cluster) for model in messages),
            handler=handler,
            durable=f"{durable}-{self._cluster}",
        )
        self._running.append(receiving)
        self._broker.attach(f"{durable}-{self._cluster}", receiving.receiver, streams=streams, from_now=from_now)
        if reclaim:
            self._broker.reclaim(f"{durable}-{self._cluster}")
        return receiving

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
        assert batch_max > 0, "nothing would ever be delivered"
        return await self.consume(durable=durable, messages=messages, handler=one_by_one(handler), reclaim=reclaim)

    async def listen(
        self, *, messages: Sequence[type[Payload]], handler: Handler, key: str | None = None, share: str = ""
    ) -> Subscription:
        """See the port."""
        patterns = []
        for model in messages:
            spec = spec_of(model)
            patterns.append(spec.pattern(self._cluster, key, kind=Kind.GO if spec.kind is Kind.CMD else None))
        receiving = _Receiving(
            self._broker,
            owner=self._name,
            cluster=self._cluster,
            consumer=self._name,
            patterns=tuple(patterns),
            handler=handler,
            durable=None,
            share=share,
        )
        self._running.append(receiving)
        self._broker.listen(receiving.receiver)
        return receiving

    async def last_commands(self, *, key: str, messages: Sequence[type[Payload]]) -> list[Delivery]:
        """See the port."""
        await self._on_the_wire("last_commands")
        found: list[Delivery] = []
        for model in messages:
            for record in self._broker.newest_first(Stream.CONTROL, str(spec_of(model).subject(self._cluster, key))):
                try:
                    envelope = decode(record.body, record.subject)
                except EnvelopeError:
                    continue  # the one before it counts
                found.append(
                    Delivery(envelope=envelope, subject=record.subject, stream_sequence=record.sequence, deliveries=1)
                )
                break
        return sorted(found, key=lambda delivery: delivery.stream_sequence or 0)

    async def ask(self, *, what: str, key: str, body: bytes = b"", timeout_s: float) -> bytes | None:
        """See the port."""
        subject = ask_spec(what).pattern(self._cluster, key)
        await self._on_the_wire(f"ask {what}")
        known = self._broker.answers.get(subject)
        if not known:
            return None
        owner, reply = known[-1]
        if owner in self._broker.partitioned or self._broker.chance(self._broker.trouble.dropped):
            await self._broker.clock.sleep(timeout_s)
            raise BusUnavailable(f"ask {what} of {key}: no reply within {timeout_s:g} s")
        try:
            return await reply(body)
        except Exception as error:
            raise BusUnavailable(f"ask {what} of {key}: the one asked failed: {type(error).__name__}") from error

    async def answer(self, *, what: str, key: str, reply: Callable[[bytes], Awaitable[bytes]]) -> Subscription:
        """See the port."""
        subject = ask_spec(what).pattern(self._cluster, key)
        answering = Answering(self._broker, subject, (self._name, reply))
        self._running.append(answering)
        return answering

    async def take_epoch(self, envelope: Envelope[Any]) -> int:
        """See the port."""
        subject = str(envelope.channel(self._cluster))
        await self._on_the_wire("take_epoch")
        return self._broker.store(Stream.CONTROL, subject, envelope.to_bytes(), message_id=None, fence=None)

    async def _on_the_wire(self, what: str) -> None:
        await self._end_if_killed()
        self._broker.reachable(self._name, what)
        if self._broker.trouble.delay_s_max > 0:
            await self._broker.clock.sleep(self._broker.random.uniform(0, self._broker.trouble.delay_s_max))
            self._broker.reachable(self._name, what)
        else:
            await asyncio.sleep(0)

    async def _end_if_killed(self) -> None:
        """A dead process does nothing more; its task is cancelled by whoever killed it."""
        if self._killed:
            await asyncio.get_running_loop().create_future()


class _Receiving:
    """A consumer (durable given) or a plain subscription: in order per key, tried again or dead-lettered."""

    def __init__(
        self,
        broker: MemoryBroker,
        *,
        owner: str,
        cluster: str,
        consumer: str,
        patterns: tuple[str, ...],
        handler: Handler,
        durable: str | None,
        share: str = "",
    ) -> None:
        self._broker = broker
        self._cluster = cluster
        self._consumer = consumer
        self._handler = handler
        self._durable = durable
        self._stopped = False
        self._work: KeyedWork[tuple[Record, int]] = KeyedWork(self._process)
        self.receiver = Receiver(owner=owner, patterns=patterns, take=self._take, share=share)

    async def stop(self) -> None:
        """See the port."""
        self._stopped = True
        if self._durable is None:
            self._broker.forget(self.receiver)
        await self._work.stop(STOP_LIMIT_S)
        if self._durable is not None:
            self._broker.detach(self._durable, self.receiver, killed=False)

    def kill(self) -> None:
        """End without goodbye."""
        self._stopped = True
        self._work.kill()
        if self._durable is None:
            self._broker.forget(self.receiver)
        else:
            self._broker.detach(self._durable, self.receiver, killed=True)

    def _take(self, record: Record, deliveries: int) -> None:
        if not self._stopped:
            self._work.add(record.subject.rpartition(".")[2], (record, deliveries))

    async def _process(self, item: tuple[Record, int]) -> None:
        record, deliveries = item
        trouble = self._broker.trouble
        if trouble.delay_s_max > 0:
            await self._broker.clock.sleep(self._broker.random.uniform(0, trouble.delay_s_max))
        if await self._until_settled(record, deliveries) and self._durable is not None:
            self._broker.settle(self._durable, self.receiver, record, deliveries)

    async def _until_settled(self, record: Record, deliveries: int) -> bool:
        tries = deliveries
        sequence = record.sequence if self._durable is not None else (record.sequence or None)
        if self._durable is not None and tries > TRIES_MAX:
            self._bury(record, GiveUp(error="ReaderDied", message=f"delivered {tries} times, never settled"), tries)
            return True
        while True:
            try:
                envelope = decode(record.body, record.subject)
                await self._handler(
                    Delivery(envelope=envelope, subject=record.subject, stream_sequence=sequence, deliveries=tries)
                )
                return True
            except Exception as failure:  # noqa: BLE001 - every failure is judged, as by the real bus
                verdict = judge_failure(failure, tries=tries)
                if isinstance(verdict, GiveUp):
                    self._bury(record, verdict, tries)
                    return True
                if self._durable is None:
                    return True  # at most once
                if not (isinstance(failure, BusUnavailable) and self.receiver.owner in self._broker.partitioned):
                    tries += 1
                await self._broker.clock.sleep(verdict.wait_s)
                if self._stopped:
                    return False

    def _bury(self, record: Record, verdict: GiveUp, tries: int) -> None:
        if record.stream is Stream.DLQ:
            return
        letter = dead_letter(
            verdict,
            record.body,
            consumer=self._consumer,
            source="/memory",
            subject=record.subject,
            stream=record.stream if self._durable is not None else "",
            stream_sequence=record.sequence or None,
            deliveries=tries,
            now=self._broker.clock.now(),
        )
        subject = str(letter.channel(self._cluster))
        self._broker.store(
            Stream.DLQ, subject, letter.to_bytes(), message_id=message_id(self._cluster, letter), fence=None
        )
