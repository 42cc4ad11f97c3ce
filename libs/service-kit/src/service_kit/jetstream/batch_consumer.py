"""A durable pull consumer that hands over many messages at once: for signals, of which there may be 10,000 a second.

Beside `consumer.py`, which is made for few messages that must not wait for each other. Here one handler call takes what
has arrived, and the next batch gathers meanwhile. The retry of a failed batch is owned here: it is tried again while
the bus is away, and taken apart when one of its messages cannot be handled.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from service_kit import metrics
from service_kit.cancellation import stopped_within
from service_kit.delivery import TRIES_MAX, GiveUp, decode, is_bug, judge_failure
from service_kit.errors import BusUnavailable
from service_kit.jetstream.ack_reply import ACK, IN_PROGRESS, NAK, TERM, read_receipt
from service_kit.jetstream.connection import Connection
from service_kit.jetstream.consumer import ACK_WAIT_S, STOP_LIMIT_S
from service_kit.jetstream.dead_letters import DeadLetters
from service_kit.jetstream.stream_mark import StreamMark
from service_kit.logging import get_logger
from service_kit.ports import Batch, BatchHandler, Delivery

BATCH_PENDING_MAX = 4_000
"""What a durable's readers hold together: three batches of 1,000 and a rest. With messages of 6 KB that is 24 MB."""
SUSPECT_AFTER = 3
"""A message that was delivered more often may be what ends its readers: from then on it is handled alone."""
READER_DIED_AFTER = 2 * TRIES_MAX
"""Later than a lone message's limit: most of a batch's redeliveries are another message's fault, or a plain kill."""

log = get_logger(__name__)
_Place = tuple[int, str]


@dataclass(slots=True, kw_only=True)
class _Held:
    msg: Msg
    place: _Place
    deliveries: int


class BatchConsumer:
    """What the pump of one durable feeds; implements service_kit.ports.Subscription together with it."""

    def __init__(
        self,
        connection: Connection,
        *,
        name: str,
        stream: str,
        mark: StreamMark,
        handler: BatchHandler,
        dead_letters: DeadLetters,
        batch_max: int,
    ) -> None:
        self._connection = connection
        self._name = name
        self._stream = stream
        self._mark = mark
        self._handler = handler
        self._dead_letters = dead_letters
        self._batch_max = batch_max
        self._queue: dict[_Place, _Held] = {}
        self._in_hand: dict[_Place, _Held] = {}
        self._arrived = asyncio.Event()
        self._stopping = asyncio.Event()
        self._handled = metrics.HANDLED.labels(consumer=name, outcome="ok")
        self._redelivered = metrics.REDELIVERIES.labels(consumer=name)
        self._tasks = [
            asyncio.create_task(self._work(), name=f"batches {name}"),
            asyncio.create_task(self._extend(), name=f"extend {name}"),
            asyncio.create_task(mark.follow(lambda: bool(self._in_hand)), name=f"mark {name}"),
        ]

    def take(self, msg: Msg) -> None:
        """Accept a message from the pump; only queues it."""
        try:
            receipt = read_receipt(msg.reply)
        except ValueError as error:
            log.error("delivery_without_receipt", consumer=self._name, subject=msg.subject, error=str(error))
            return
        place = (receipt.stream_sequence, receipt.stored_ns)
        if receipt.deliveries > 1:
            self._redelivered.inc()
        held = self._in_hand.get(place) or self._queue.get(place)
        if held is not None:  # Ours already: the server lost patience or restarted. The new receipt counts.
            held.msg = msg
            return
        self._queue[place] = _Held(msg=msg, place=place, deliveries=receipt.deliveries)
        self._arrived.set()

    def begin_stop(self) -> None:
        """From now on nothing new is begun."""
        self._stopping.set()
        self._arrived.set()

    async def stop(self) -> None:
        """Finish the batch in hand, give back what is queued."""
        self.begin_stop()
        await asyncio.wait(self._tasks[:1], timeout=STOP_LIMIT_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for held in (*self._in_hand.values(), *self._queue.values()):
            await self._tell(held, NAK)

    async def _work(self) -> None:
        while not self._stopping.is_set():
            await self._arrived.wait()
            self._arrived.clear()
            while self._queue and not self._stopping.is_set():
                places = sorted(self._queue)[: self._batch_max]
                self._in_hand = {place: self._queue.pop(place) for place in places}
                # What is settled leaves `_in_hand`; the rest, when it is time to stop, is given back.
                await self._settle(tuple(self._in_hand.values()))

    async def _settle(self, batch: tuple[_Held, ...]) -> None:
        together: list[tuple[_Held, Delivery]] = []
        for held in batch:
            try:
                envelope: Any = decode(held.msg.data, held.msg.subject)
            except Exception as error:  # noqa: BLE001 - judged below: what cannot be decoded is dead-lettered
                await self._failed_alone(held, error, tries=held.deliveries)
                continue
            entry = (held, self._delivery(held, envelope))
            if held.deliveries > SUSPECT_AFTER:
                await self._until_settled([entry])
            else:
                together.append(entry)
        if together:
            await self._until_settled(together)

    def _delivery(self, held: _Held, envelope: Any) -> Delivery:
        return Delivery(
            envelope=envelope,
            subject=held.msg.subject,
            stream_sequence=held.place[0],
            deliveries=held.deliveries,
        )

    async def _until_settled(self, entries: list[tuple[_Held, Delivery]]) -> None:
        """Try until all of it is handled, buried, or it is time to stop."""
        tries = 1
        while True:
            held = entries[0][0]
            if len(entries) == 1 and held.deliveries > READER_DIED_AFTER:
                message = f"delivered {held.deliveries} times and never settled: its readers died on it"
                await self._bury(held, GiveUp(error="ReaderDied", message=message), held.deliveries)
                return
            failure = await self._try_once(tuple(delivery for _, delivery in entries))
            if failure is None:
                await self._tell_all([each for each, _ in entries])
                self._handled.inc(len(entries))
                return
            # A bus that is away says nothing about the messages, however often it is asked.
            verdict = judge_failure(failure, tries=1 if isinstance(failure, BusUnavailable) else tries)
            log_failure = log.exception if is_bug(failure) else log.warning
            log_failure(
                "batch_failed",
                consumer=self._name,
                messages=len(entries),
                sequence=held.place[0],
                tries=tries,
                error=f"{type(failure).__name__}: {failure}"[:500],
                exc_info=failure if is_bug(failure) else None,
            )
            if isinstance(verdict, GiveUp):
                if len(entries) == 1:
                    await self._bury(held, verdict, max(tries, held.deliveries))
                    return
                for entry in entries:
                    await self._until_settled([entry])
                    if self._stopping.is_set():
                        return
                return
            tries += 1
            if await stopped_within(
                self._stopping, max(verdict.wait_s, 0.25 if isinstance(failure, BusUnavailable) else 0.0)
            ):
                return
            while not await self._connection.wait_connected(0.5):
                if self._stopping.is_set():
                    return

    async def _try_once(self, deliveries: tuple[Delivery, ...]) -> Exception | None:
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        try:
            await self._handler(Batch(deliveries=deliveries, life=self._mark.life, settled=self._mark.settled))
        except Exception as error:  # noqa: BLE001 - every failure is judged: none is silent, none stops the consumer
            return error
        finally:
            metrics.observe_handler(self._name, "batch", loop.time() - started_s)
        return None

    async def _failed_alone(self, held: _Held, error: Exception, *, tries: int) -> None:
        verdict = judge_failure(error, tries=max(tries, TRIES_MAX))
        assert isinstance(verdict, GiveUp), "tried often enough"
        await self._bury(held, verdict, tries)

    async def _bury(self, held: _Held, verdict: GiveUp, tries: int) -> None:
        """Dead-letter it."""
        if await self._dead_letters.put_at_last(
            verdict,
            held.msg.data,
            stopping=self._stopping,
            consumer=self._name,
            subject=held.msg.subject,
            stream=self._stream,
            stream_sequence=held.place[0],
            deliveries=tries,
        ):
            await self._tell(held, TERM)

    async def _tell(self, held: _Held, receipt: bytes) -> None:
        if receipt in (ACK, TERM):
            self._in_hand.pop(held.place, None)
        try:
            await self._connection.client.publish(held.msg.reply, receipt)
        except (NatsError, OSError) as error:
            # Lost receipts cost a redelivery, which the handler recognises by its sequence.
            log.warning("receipt_lost", consumer=self._name, receipt=receipt.decode(), error=str(error))

    async def _tell_all(self, batch: list[_Held]) -> None:
        """All of it is settled."""
        for held in batch:
            self._in_hand.pop(held.place, None)
        try:
            await self._connection.client.publish_to_all([held.msg.reply for held in batch], ACK)
        except (NatsError, OSError) as error:
            log.warning("receipts_lost", consumer=self._name, messages=len(batch), error=str(error))

    async def _extend(self) -> None:
        """Ask for more time while a batch takes long: its store may be away for minutes."""
        while True:
            await asyncio.sleep(ACK_WAIT_S / 3)
            for held in (*self._in_hand.values(), *self._queue.values()):
                if self._connection.is_connected:
                    await self._tell(held, IN_PROGRESS)
