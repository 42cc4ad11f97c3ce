"""A durable pull consumer: decode, handle in order per key, then acknowledge, try again or dead-letter.

The retry of a failed handler is owned here and nowhere else. The server never gives up by itself (max_deliver -1): it
would do so silently; here the last word on a message is an acknowledgement or a dead letter, also for one that kills
its reader.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from nats.aio.msg import Msg
from nats.errors import Error as NatsError

from service_kit import metrics, tracing
from service_kit.cancellation import stopped_within
from service_kit.delivery import TRIES_MAX, GiveUp, decode, is_bug, judge_failure
from service_kit.errors import BusUnavailable
from service_kit.jetstream.ack_reply import ACK, IN_PROGRESS, NAK, TERM, read_receipt
from service_kit.jetstream.connection import Connection
from service_kit.jetstream.dead_letters import DeadLetters
from service_kit.keyed_work import KeyedWork
from service_kit.logging import get_logger
from service_kit.ports import Delivery, Handler

ACK_WAIT_S = 30.0
ACK_PENDING_MAX = 1_000
"""Bound of what one consumer holds in memory and of what is redelivered when its process dies."""
SETTLED_KEPT = 4_096
"""Places of messages that are done, so that a forgetful server's redelivery is not handled twice: some 0.5 MB."""
STOP_LIMIT_S = 10.0

log = get_logger(__name__)


_Place = tuple[str, int, str]
"""Stream, sequence, time of storing."""


@dataclass(slots=True, kw_only=True)
class _Held:
    """A message that the server waits for."""

    msg: Msg
    place: _Place
    stream: str
    sequence: int
    deliveries: int
    held_since_s: float


class Consumer:
    """What the pumps of one durable feed; implements service_kit.ports.Subscription together with them."""

    def __init__(self, connection: Connection, *, name: str, handler: Handler, dead_letters: DeadLetters) -> None:
        self._connection = connection
        self._name = name
        self._handler = handler
        self._dead_letters = dead_letters
        self._handled = metrics.HANDLED.labels(consumer=name, outcome="ok")
        self._work: KeyedWork[_Held] = KeyedWork(self._process)
        self._held: dict[_Place, _Held] = {}
        self._settled: OrderedDict[_Place, bytes] = OrderedDict()
        self._answers: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()
        self._extender = asyncio.create_task(self._extend(), name=f"extend {name}")

    def take(self, msg: Msg) -> None:
        """Accept a message from a pump; only queues it."""
        try:
            receipt = read_receipt(msg.reply)
        except ValueError as error:
            log.error("delivery_without_receipt", consumer=self._name, subject=msg.subject, error=str(error))
            return
        place = (receipt.stream, receipt.stream_sequence, receipt.stored_ns)
        settled = self._settled.get(place)
        if settled is not None:
            # A killed server forgets the last acknowledgements, and that it delivered at all: its consumer state is not
            # fsynced with each of them. This process remembers.
            metrics.REDELIVERIES.labels(consumer=self._name).inc()
            self._answer(msg, settled)
            return
        if self._stopping.is_set():
            self._answer(msg, NAK)
            return
        if receipt.deliveries > 1:
            metrics.REDELIVERIES.labels(consumer=self._name).inc()
        held = self._held.get(place)
        if held is not None:
            # Ours already, and still in hand: the server lost patience or restarted. The new receipt counts.
            held.msg = msg
            return
        held = _Held(
            msg=msg,
            place=place,
            stream=receipt.stream,
            sequence=receipt.stream_sequence,
            deliveries=receipt.deliveries,
            held_since_s=asyncio.get_running_loop().time(),
        )
        self._held[place] = held
        self._work.add(msg.subject.rpartition(".")[2], held)

    def begin_stop(self) -> None:
        """From now on arriving messages are given back, and retries end."""
        self._stopping.set()

    async def stop(self) -> None:
        """Finish what is in hand, give back what is queued."""
        self.begin_stop()
        left = await self._work.stop(STOP_LIMIT_S)
        for held in left:
            await self._tell(held.msg, NAK)
        self._held.clear()
        if self._answers:
            await asyncio.wait(tuple(self._answers), timeout=1.0)
        self._extender.cancel()
        await asyncio.gather(self._extender, return_exceptions=True)

    async def _process(self, held: _Held) -> None:
        try:
            receipt = await self._until_settled(held)
        except asyncio.CancelledError:
            await self._tell(held.msg, NAK)
            raise
        except Exception:
            log.exception("consumer_failed", consumer=self._name, stream=held.stream, sequence=held.sequence)
            receipt = NAK
        finally:
            self._held.pop(held.place, None)
        if receipt != NAK:
            self._settled[held.place] = receipt
            if len(self._settled) > SETTLED_KEPT:
                self._settled.popitem(last=False)
        await self._tell(held.msg, receipt)

    async def _until_settled(self, held: _Held) -> bytes:
        """Try until it is handled or hopeless; returns the receipt."""
        tries = held.deliveries
        if tries > TRIES_MAX:
            # It was delivered so often and never settled: it ends its readers.
            message = f"delivered {tries} times and never settled: its readers died on it"
            return await self._bury(held, GiveUp(error="ReaderDied", message=message), tries)
        while True:
            failure = await self._try_once(held, tries)
            if failure is None:
                self._handled.inc()
                return ACK
            verdict = judge_failure(failure, tries=tries)
            log_failure = log.exception if is_bug(failure) else log.warning
            log_failure(
                "handler_failed",
                consumer=self._name,
                subject=held.msg.subject,
                sequence=held.sequence,
                tries=tries,
                error=f"{type(failure).__name__}: {failure}"[:500],
                exc_info=failure if is_bug(failure) else None,
            )
            if isinstance(verdict, GiveUp):
                return await self._bury(held, verdict, tries)
            metrics.REDELIVERIES.labels(consumer=self._name).inc()
            if await stopped_within(self._stopping, verdict.wait_s):
                return NAK
            if isinstance(failure, BusUnavailable) and not self._connection.is_connected:
                # The bus is away, which says nothing about the message: this try does not count.
                while not await self._connection.wait_connected(0.5):
                    if self._stopping.is_set():
                        return NAK
            else:
                tries += 1

    async def _try_once(self, held: _Held, tries: int) -> Exception | None:
        msg = held.msg
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        message = "undecodable"
        try:
            envelope: Any = decode(msg.data, msg.subject)
            message = envelope.type
            delivery = Delivery(envelope=envelope, subject=msg.subject, stream_sequence=held.sequence, deliveries=tries)
            with tracing.handling(message, msg.headers):
                await self._handler(delivery)
        except Exception as error:  # noqa: BLE001 - every failure is judged: none is silent, none stops the consumer
            return error
        finally:
            metrics.observe_handler(self._name, message, loop.time() - started_s)
        return None

    async def _bury(self, held: _Held, verdict: GiveUp, tries: int) -> bytes:
        """Dead-letter it."""
        buried = await self._dead_letters.put_at_last(
            verdict,
            held.msg.data,
            stopping=self._stopping,
            consumer=self._name,
            subject=held.msg.subject,
            stream=held.stream,
            stream_sequence=held.sequence,
            deliveries=tries,
        )
        return TERM if buried else NAK

    def _answer(self, msg: Msg, receipt: bytes) -> None:
        task = asyncio.get_running_loop().create_task(self._tell(msg, receipt))
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _tell(self, msg: Msg, receipt: bytes) -> None:
        try:
            await self._connection.client.publish(msg.reply, receipt)
        except (NatsError, OSError) as error:
            # Lost receipts cost a redelivery, which handlers and ids absorb.
            log.warning("receipt_lost", consumer=self._name, receipt=receipt.decode(), error=str(error))

    async def _extend(self) -> None:
        """Ask for more time for what is held long, so that a slow handler's queue is not delivered to somebody else."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(ACK_WAIT_S / 3)
            old_s = loop.time() - ACK_WAIT_S / 3
            for held in tuple(self._held.values()):
                if held.held_since_s < old_s and self._connection.is_connected:
                    await self._tell(held.msg, IN_PROGRESS)
