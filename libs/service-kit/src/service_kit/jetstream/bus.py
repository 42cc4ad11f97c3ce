"""service_kit.ports.Bus on JetStream: registered messages in, registered messages out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from nats.errors import Error as NatsError

from fault_contracts.asks import ask_spec
from fault_contracts.commands import LeaderEpoch
from fault_contracts.envelope import Envelope, EnvelopeError
from fault_contracts.payload import Payload
from fault_contracts.registry import Stream, spec_of
from fault_contracts.subjects import Kind, encode_token
from service_kit import metrics, tracing
from service_kit.clock import SystemClock
from service_kit.command_signature import HEADER as SIGNATURE
from service_kit.command_signature import CommandKeys, signature
from service_kit.delivery import message_id
from service_kit.errors import (
    BusUnavailable,
    ContractViolation,
    PermanentError,
    ServiceError,
    StaleLeader,
)
from service_kit.jetstream.answering import FAILED_HEADER, Answering
from service_kit.jetstream.batch_feed import BatchFeed
from service_kit.jetstream.connection import Connection, NoResponders
from service_kit.jetstream.consumer import ACK_PENDING_MAX, ACK_WAIT_S, Consumer
from service_kit.jetstream.dead_letters import DeadLetters
from service_kit.jetstream.direct_get import last_message
from service_kit.jetstream.durable import ensure_durable, reclaim_pending
from service_kit.jetstream.listener import Listener
from service_kit.jetstream.newest_commands import NewestCommands
from service_kit.jetstream.publisher import Publisher
from service_kit.jetstream.pull_pump import PullPump
from service_kit.jetstream.server_answer import WRONG_LAST_SEQUENCE, PublishAck, ServerRefusal
from service_kit.logging import get_logger
from service_kit.ports import BatchHandler, Clock, Delivery, Handler, Subscription

PUBLISH_LIMIT_S = 10.0
_EXPECTED = "Nats-Expected-Last-Subject-Sequence"

log = get_logger(__name__)


class JetStreamBus:
    """Messages of one cluster over one connection."""

    def __init__(
        self,
        connection: Connection,
        *,
        cluster: str,
        source: str | None = None,
        clock: Clock | None = None,
        publish_limit_s: float = PUBLISH_LIMIT_S,
        publisher: Publisher | None = None,
        command_keys: CommandKeys | None = None,
    ) -> None:
        self._connection = connection
        self._cluster = cluster
        self._publish_limit_s = publish_limit_s
        self._publisher = publisher or Publisher(connection)
        source = source or f"/{connection.name}"
        self._dead_letters = DeadLetters(self._publisher, cluster=cluster, source=source, clock=clock or SystemClock())
        self._reader = connection.name.partition(" ")[0]
        """`node-agent` of `node-agent node-7`: a broken command is one letter, not one for each agent that met it."""
        self._command_keys = command_keys
        self._newest = NewestCommands(
            connection, reader=self._reader, dead_letters=self._dead_letters, command_keys=command_keys
        )
        self._epoch_subject = str(spec_of(LeaderEpoch).subject(cluster, "planner"))

    async def publish(self, envelope: Envelope[Any], *, epoch: int | None = None) -> int:
        """See the port."""
        subject = str(envelope.channel(self._cluster))
        headers = {"Content-Type": "application/json"}
        tracing.inject(envelope.type, headers)
        try:
            body = envelope.to_bytes()
            spec = spec_of(type(envelope.data))
            if spec.stream is None:
                await self._publish_plain(subject, body, headers)
                return 0
            headers["Nats-Msg-Id"] = message_id(self._cluster, envelope)
            identity = self._connection.identity
            if spec.kind is Kind.CMD and identity is not None:
                headers[SIGNATURE] = signature(identity.key, subject, body)
            if epoch is not None:
                headers[_EXPECTED] = str(epoch)
                headers[f"{_EXPECTED}-Subject"] = self._epoch_subject
            return (await self._publish_fenced(subject, body, headers, epoch)).sequence
        except EnvelopeError as error:
            metrics.PUBLISH_FAILURES.labels(message=envelope.type, error="ContractViolation").inc()
            raise ContractViolation(str(error)) from error
        except ServiceError as error:
            metrics.PUBLISH_FAILURES.labels(message=envelope.type, error=type(error).__name__).inc()
            raise

    async def consume(
        self,
        *,
        durable: str,
        messages: Sequence[type[Payload]],
        handler: Handler,
        from_now: bool = False,
        reclaim: bool = False,
    ) -> Subscription:
        """See the port. One server-side consumer per stream, named after the durable and the cluster."""
        filters: dict[Stream, list[str]] = {}
        for model in messages:
            spec = spec_of(model)
            if spec.stream is None:
                raise PermanentError(f"{spec.type} is not stored: listen to it")
            filters.setdefault(spec.stream, []).append(spec.pattern(self._cluster))
        consumer = Consumer(self._connection, name=durable, handler=handler, dead_letters=self._dead_letters)
        running = _Consuming(consumer)
        name = f"{encode_token(durable)}-{encode_token(self._cluster)}"
        try:
            for stream, subjects in filters.items():
                ensure = _ensurer(self._connection, stream, name, subjects, from_now)
                await ensure()
                if reclaim:
                    await reclaim_pending(self._connection, stream=stream, name=name)
                pump = PullPump(self._connection, stream=stream, consumer=name, on_message=consumer.take, ensure=ensure)
                running.pumps.append(pump)
                await pump.start()
        except BaseException:
            await running.stop()
            raise
        return running

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
        feed = BatchFeed(self._connection, durable=durable, cluster=self._cluster, messages=messages)
        await feed.start(handler, self._dead_letters, batch_max=batch_max, reclaim=reclaim)
        return feed

    async def listen(
        self, *, messages: Sequence[type[Payload]], handler: Handler, key: str | None = None, share: str = ""
    ) -> Subscription:
        """See the port. Commands are heard where the stream republishes them, never on their own subject."""
        patterns = []
        for model in messages:
            spec = spec_of(model)
            patterns.append(spec.pattern(self._cluster, key, kind=Kind.GO if spec.kind is Kind.CMD else None))
        listener = Listener(
            self._connection,
            name=self._reader,
            handler=handler,
            dead_letters=self._dead_letters,
            command_keys=self._command_keys,
        )
        await listener.start(patterns, share=share)
        return listener

    async def last_commands(self, *, key: str, messages: Sequence[type[Payload]]) -> list[Delivery]:
        """See the port."""
        return await self._newest.read([spec_of(model).pattern(self._cluster, key) for model in messages])

    async def ask(self, *, what: str, key: str, body: bytes = b"", timeout_s: float) -> bytes | None:
        """See the port."""
        try:
            answer = await self._connection.request(self._ask_subject(what, key), body, limit_s=timeout_s)
        except NoResponders:
            return None
        failed = (answer.headers or {}).get(FAILED_HEADER)
        if failed is not None:
            raise BusUnavailable(f"ask {what} of {key}: the one asked failed: {failed}")
        return answer.data

    async def answer(self, *, what: str, key: str, reply: Callable[[bytes], Awaitable[bytes]]) -> Subscription:
        """See the port."""
        answering = Answering(self._connection, reply)
        await answering.start(self._ask_subject(what, key))
        return answering

    async def take_epoch(self, envelope: Envelope[Any]) -> int:
        """See the port. Compare-and-set on the epoch's subject: two takers get two epochs in a known order."""
        subject = str(envelope.channel(self._cluster))
        body = envelope.to_bytes()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._publish_limit_s
        while True:
            newest = await last_message(self._connection, Stream.CONTROL, subject)
            # No message id of the envelope: a planner that takes the lead again must get a new sequence.
            headers = {"Content-Type": "application/json", _EXPECTED: str(newest.sequence if newest else 0)}
            try:
                rest_s = max(0.1, deadline_s - loop.time())
                ack = await self._publisher.publish(subject, body, headers, limit_s=rest_s)
            except ServerRefusal as refusal:
                if refusal.err_code not in WRONG_LAST_SEQUENCE and not refusal.may_be_repeated:
                    raise refusal.as_failure() from refusal
                if loop.time() > deadline_s:
                    raise BusUnavailable(f"no epoch within {self._publish_limit_s:g} s: {refusal}") from refusal
                await asyncio.sleep(0.01)
                continue
            log.info("epoch_taken", epoch=ack.sequence, cluster=self._cluster)
            return ack.sequence

    async def _publish_plain(self, subject: str, body: bytes, headers: dict[str, str]) -> None:
        try:
            await self._connection.client.publish(subject, body, headers=headers)
        except (NatsError, OSError) as error:
            raise BusUnavailable(f"publish on {subject}: {type(error).__name__} {error}") from error

    async def _publish_fenced(
        self, subject: str, body: bytes, headers: dict[str, str], epoch: int | None
    ) -> PublishAck:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._publish_limit_s
        while True:
            try:
                rest_s = max(0.1, deadline_s - loop.time())
                return await self._publisher.publish(subject, body, headers, limit_s=rest_s)
            except ServerRefusal as refusal:
                if refusal.err_code in WRONG_LAST_SEQUENCE and epoch is not None:
                    newest = await last_message(self._connection, Stream.CONTROL, self._epoch_subject)
                    if newest is None or newest.sequence != epoch:
                        there = newest.sequence if newest else "none"
                        raise StaleLeader(f"epoch {epoch} is not the newest ({there}): {subject} refused") from refusal
                    # A clustered stream refuses while another write with the same fence is in flight: again.
                elif not refusal.may_be_repeated:
                    raise refusal.as_failure() from refusal
                if loop.time() > deadline_s:
                    raise refusal.as_failure() from refusal
                await asyncio.sleep(0.02)

    def _ask_subject(self, what: str, key: str) -> str:
        return ask_spec(what).pattern(self._cluster, key)


def _ensurer(
    connection: Connection, stream: str, name: str, filters: list[str], from_now: bool
) -> Callable[[], Awaitable[None]]:
    async def ensure() -> None:
        await ensure_durable(
            connection,
            stream=stream,
            name=name,
            filters=filters,
            from_now=from_now,
            ack_wait_s=ACK_WAIT_S,
            ack_pending_max=ACK_PENDING_MAX,
        )

    return ensure


class _Consuming:
    """A consumer and its pumps, stopped together: no new messages, finish the one in hand, give back the rest."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.pumps: list[PullPump] = []

    async def stop(self) -> None:
        """See the port."""
        self.consumer.begin_stop()
        await asyncio.gather(*(pump.stop() for pump in self.pumps))
        await self.consumer.stop()
