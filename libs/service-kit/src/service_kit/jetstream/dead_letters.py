"""The only place that writes to the dead-letter subject, and says so in log and metric."""

from __future__ import annotations

import asyncio

from fault_contracts.registry import Stream
from service_kit import metrics
from service_kit.cancellation import stopped_within
from service_kit.delivery import GiveUp, dead_letter, message_id
from service_kit.errors import ServiceError, TransientError
from service_kit.jetstream.publisher import Publisher
from service_kit.jetstream.server_answer import ServerRefusal
from service_kit.logging import get_logger
from service_kit.ports import Clock

PUT_LIMIT_S = 5.0
RETRY_FIRST_S = 0.25
RETRY_S_MAX = 10.0

log = get_logger(__name__)


class DeadLetters:
    """Puts what nobody could handle where people look."""

    def __init__(self, publisher: Publisher, *, cluster: str, source: str, clock: Clock) -> None:
        self._publisher = publisher
        self._cluster = cluster
        self._source = source
        self._clock = clock

    async def put(
        self,
        verdict: GiveUp,
        raw: bytes,
        *,
        consumer: str,
        subject: str,
        stream: str,
        stream_sequence: int | None,
        deliveries: int,
    ) -> bool:
        """Store one dead letter. False: the bus is away, try again. True: stored, or refused for good (logged)."""
        metric = metrics.DEAD_LETTERS.labels(consumer=consumer, error=verdict.error)
        where = {
            "consumer": consumer,
            "subject": subject,
            "stream": stream,
            "sequence": stream_sequence,
            "deliveries": deliveries,
            "error": f"{verdict.error}: {verdict.message}"[:500],
        }
        if stream == Stream.DLQ:
            # A reader of dead letters that fails must not write new ones for itself to fail on.
            log.error("dead_letter_unreadable", **where)
            metric.inc()
            return True
        envelope = dead_letter(
            verdict,
            raw,
            consumer=consumer,
            source=self._source,
            subject=subject,
            stream=stream,
            stream_sequence=stream_sequence,
            deliveries=deliveries,
            now=self._clock.now(),
        )
        headers = {"Nats-Msg-Id": message_id(self._cluster, envelope), "Content-Type": "application/json"}
        try:
            await self._publisher.publish(
                str(envelope.channel(self._cluster)), envelope.to_bytes(), headers, limit_s=PUT_LIMIT_S
            )
        except ServiceError as error:
            failure = error.as_failure() if isinstance(error, ServerRefusal) else error
            if isinstance(failure, TransientError):
                log.warning("dead_letter_waits", reason=str(failure), **where)
                return False
            log.error("dead_letter_refused", reason=str(failure), **where)
            metric.inc()
            return True
        log.error("dead_lettered", message_id=envelope.id, **where)
        metric.inc()
        return True

    async def put_at_last(
        self,
        verdict: GiveUp,
        raw: bytes,
        *,
        stopping: asyncio.Event,
        consumer: str,
        subject: str,
        stream: str,
        stream_sequence: int | None,
        deliveries: int,
    ) -> bool:
        """Store it, however long the bus is away: a message must not vanish. False: it was time to stop first."""
        wait_s = RETRY_FIRST_S
        while not await self.put(
            verdict,
            raw,
            consumer=consumer,
            subject=subject,
            stream=stream,
            stream_sequence=stream_sequence,
            deliveries=deliveries,
        ):
            if await stopped_within(stopping, wait_s):
                return False
            wait_s = min(2 * wait_s, RETRY_S_MAX)
        metrics.HANDLED.labels(consumer=consumer, outcome="dead_letter").inc()
        return True
