"""A plain subscription: at most once, in order per key, bounded. For republished commands and heartbeats."""

from __future__ import annotations

import asyncio

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from fault_contracts.subjects import ROOT, Kind
from service_kit import metrics, tracing
from service_kit.command_signature import CommandKeys
from service_kit.delivery import GiveUp, decode, is_bug, judge_failure
from service_kit.jetstream.connection import Connection
from service_kit.jetstream.dead_letters import DeadLetters
from service_kit.keyed_work import KeyedWork
from service_kit.logging import get_logger
from service_kit.ports import Delivery, Handler

WAITING_MAX = 8_192
"""Messages that wait for their handler; two heartbeats of 4,096 nodes. Beyond it new ones are dropped and counted."""
STOP_LIMIT_S = 5.0
_COMMAND = f"{ROOT}.{Kind.GO}."

log = get_logger(__name__)


class Listener:
    """Implements service_kit.ports.Subscription."""

    def __init__(
        self,
        connection: Connection,
        *,
        name: str,
        handler: Handler,
        dead_letters: DeadLetters,
        command_keys: CommandKeys | None = None,
    ) -> None:
        self._command_keys = command_keys
        self._connection = connection
        self._name = name
        self._handler = handler
        self._dead_letters = dead_letters
        self._handled = metrics.HANDLED.labels(consumer=name, outcome="ok")
        self._work: KeyedWork[Msg] = KeyedWork(self._process)
        self._subscriptions: list[Subscription] = []

    async def start(self, patterns: list[str], *, share: str = "") -> None:
        """Subscribe, and wait until the server knows. `share`: name of a queue group."""
        for pattern in patterns:
            subscribed = await self._connection.client.subscribe(pattern, queue=share, cb=self._take)
            self._subscriptions.append(subscribed)
        # Otherwise a message published right after us through another connection could overtake it.
        await self._connection.subscribed(*self._subscriptions)

    async def stop(self) -> None:
        """Finish what is in hand."""
        for subscription in self._subscriptions:
            await self._connection.end_subscription(subscription)
        await self._work.stop(STOP_LIMIT_S)

    async def _take(self, msg: Msg) -> None:
        if self._work.size >= WAITING_MAX:
            metrics.MESSAGES_DROPPED.labels(reason="listener_full").inc()
            return
        self._work.add(msg.subject.rpartition(".")[2], msg)

    async def _process(self, msg: Msg) -> None:
        headers = msg.headers or {}
        sequence = headers.get("Nats-Sequence", "")
        stream_sequence = int(sequence) if sequence.isdigit() else None
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        message = "undecodable"
        try:
            if self._command_keys is not None and msg.subject.startswith(_COMMAND):
                self._command_keys.check(msg.subject, headers, msg.data)
            envelope = decode(msg.data, msg.subject)
            message = envelope.type
            with tracing.handling(message, headers):
                await self._handler(
                    Delivery(envelope=envelope, subject=msg.subject, stream_sequence=stream_sequence, deliveries=1)
                )
            self._handled.inc()
        except Exception as failure:  # noqa: BLE001 - every failure is judged: none is silent, none stops the listener
            await self._failed(msg, failure, headers.get("Nats-Stream", ""), stream_sequence)
        finally:
            metrics.observe_handler(self._name, message, loop.time() - started_s)

    async def _failed(self, msg: Msg, failure: Exception, stream: str, stream_sequence: int | None) -> None:
        metrics.HANDLED.labels(consumer=self._name, outcome="failed").inc()
        log.warning(
            "listener_failed",
            listener=self._name,
            subject=msg.subject,
            error=f"{type(failure).__name__}: {failure}"[:500],
            exc_info=failure if is_bug(failure) else None,
        )
        verdict = judge_failure(failure, tries=1)
        if isinstance(verdict, GiveUp):
            # At most once also here: without a bus the letter is only in the log.
            await self._dead_letters.put(
                verdict,
                msg.data,
                consumer=self._name,
                subject=msg.subject,
                stream=stream,
                stream_sequence=stream_sequence,
                deliveries=1,
            )
