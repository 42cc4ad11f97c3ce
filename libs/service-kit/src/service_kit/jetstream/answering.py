"""Serves core NATS requests: each in its own task, so that a slow one holds up nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from service_kit import metrics
from service_kit.identity import INBOX_ROOT
from service_kit.jetstream.connection import Connection
from service_kit.logging import get_logger

ANSWERS_MAX = 256
"""Requests answered at once per subject; further ones get no reply and count as unknown to the asker."""
FAILED_HEADER = "Phalanx-Failed"
"""Carries the class of the error that the one asked ran into."""
STOP_LIMIT_S = 1.0
_INBOX = f"{INBOX_ROOT}."

log = get_logger(__name__)


class Answering:
    """Implements service_kit.ports.Subscription."""

    def __init__(self, connection: Connection, reply: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._connection = connection
        self._reply = reply
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscription: Subscription | None = None

    async def start(self, subject: str) -> None:
        """Subscribe, and wait until the server knows."""
        self._subscription = await self._connection.client.subscribe(subject, cb=self._take)
        # Otherwise a message published right after us through another connection could overtake it.
        await self._connection.subscribed(self._subscription)

    async def stop(self) -> None:
        """See the port. Requests that were under way are answered."""
        if self._subscription is not None:
            await self._connection.end_subscription(self._subscription)
        if self._tasks:
            await asyncio.wait(tuple(self._tasks), timeout=STOP_LIMIT_S)

    async def _take(self, msg: Msg) -> None:
        if not msg.reply.startswith(_INBOX):
            # Our permissions are not the asker's: a question with a command's subject as its reply would have us say
            # there what the asker may not.
            metrics.MESSAGES_DROPPED.labels(reason="reply_not_to_an_inbox").inc()
            log.warning("question_refused", subject=msg.subject, reply=msg.reply[:200])
            return
        if len(self._tasks) >= ANSWERS_MAX:
            metrics.MESSAGES_DROPPED.labels(reason="answers_full").inc()
            return
        task = asyncio.get_running_loop().create_task(self._answer(msg))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, msg: Msg) -> None:
        headers: dict[str, str] | None = None
        try:
            body = await self._reply(msg.data)
        except Exception as error:
            log.exception("answer_failed", subject=msg.subject)
            body, headers = b"", {FAILED_HEADER: type(error).__name__}
        try:
            await self._connection.client.publish(msg.reply, body, headers=headers)
        except (NatsError, OSError) as error:
            log.warning("answer_lost", subject=msg.subject, error=str(error))
