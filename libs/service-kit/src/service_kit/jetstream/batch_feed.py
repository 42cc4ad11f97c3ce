"""Puts a batch consumer together: the durable on the server, its mark, the pump and the reader."""

from __future__ import annotations

from collections.abc import Sequence

from fault_contracts.payload import Payload
from fault_contracts.registry import spec_of
from fault_contracts.subjects import encode_token
from service_kit.errors import PermanentError
from service_kit.jetstream.batch_consumer import BATCH_PENDING_MAX, BatchConsumer
from service_kit.jetstream.connection import Connection
from service_kit.jetstream.consumer import ACK_WAIT_S
from service_kit.jetstream.dead_letters import DeadLetters
from service_kit.jetstream.durable import ensure_durable, reclaim_pending
from service_kit.jetstream.pull_pump import PullPump
from service_kit.jetstream.stream_mark import StreamMark
from service_kit.ports import BatchHandler


class BatchFeed:
    """A batch consumer and its pump, started and stopped together; implements service_kit.ports.Subscription."""

    def __init__(
        self, connection: Connection, *, durable: str, cluster: str, messages: Sequence[type[Payload]]
    ) -> None:
        """Find the stream.

        Raises:
            PermanentError: messages that are not stored, or not in one stream.
        """
        specs = [spec_of(model) for model in messages]
        streams = {spec.stream for spec in specs}
        stream = next(iter(streams)) if len(streams) == 1 else None
        if stream is None:
            raise PermanentError(f"{durable}: batches come from one stream, not from {sorted(map(str, streams))}")
        self._connection = connection
        self._stream = stream
        self._durable = durable
        self._name = f"{encode_token(durable)}-{encode_token(cluster)}"
        self._filters = [spec.pattern(cluster) for spec in specs]
        self._mark = StreamMark(connection, stream=stream, consumer=self._name)
        self._consumer: BatchConsumer | None = None
        self._pump: PullPump | None = None

    async def start(self, handler: BatchHandler, dead_letters: DeadLetters, *, batch_max: int, reclaim: bool) -> None:
        """Make sure of the durable and ask for the first messages."""
        await self._ensure()
        if reclaim:
            await reclaim_pending(self._connection, stream=self._stream, name=self._name)
        await self._mark.refresh()
        self._consumer = BatchConsumer(
            self._connection,
            name=self._durable,
            stream=self._stream,
            mark=self._mark,
            handler=handler,
            dead_letters=dead_letters,
            batch_max=batch_max,
        )
        self._pump = PullPump(
            self._connection,
            stream=self._stream,
            consumer=self._name,
            on_message=self._consumer.take,
            ensure=self._ensure,
            batch=batch_max,
        )
        try:
            await self._pump.start()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """No new messages, finish the batch in hand, give back the rest."""
        if self._consumer is None or self._pump is None:
            return
        self._consumer.begin_stop()
        await self._pump.stop()
        await self._consumer.stop()

    async def _ensure(self) -> None:
        await ensure_durable(
            self._connection,
            stream=self._stream,
            name=self._name,
            filters=self._filters,
            from_now=False,
            ack_wait_s=ACK_WAIT_S,
            ack_pending_max=BATCH_PENDING_MAX,
        )
        await self._mark.read_life()
