"""Messages of one durable consumer, pushed to a callback as they come: one pull request is always open ahead.

nats-py's `fetch` costs a task and a timer per message, and its pull requests are not sent again after a reconnect. Here
one inbox with a callback takes everything, the next request overlaps the last, and it is asked anew on reconnect, on a
missed idle heartbeat, and when the server says that the request is over.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from service_kit.errors import ServiceError
from service_kit.jetstream.connection import Connection
from service_kit.jetstream.server_answer import status_of
from service_kit.logging import get_logger

BATCH = 256
"""Messages asked for at once; measured best between 250 and 500."""
EXPIRES_S = 30.0
IDLE_HEARTBEAT_S = 5.0
SILENCE_S_MAX = 2.5 * IDLE_HEARTBEAT_S
RETRY_S = (0.02, 0.1, 0.5, 2.0)
"""Between requests while the consumer does not answer (restart, election); the last one repeats."""
_HEARTBEAT, _EXPIRED, _CONFLICT = "100", "408", "409"

log = get_logger(__name__)


class PullPump:
    """Keeps pulling until stopped."""

    def __init__(
        self,
        connection: Connection,
        *,
        stream: str,
        consumer: str,
        on_message: Callable[[Msg], None],
        ensure: Callable[[], Awaitable[None]],
        batch: int = BATCH,
    ) -> None:
        self._connection = connection
        self._batch = batch
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._name = f"{stream}/{consumer}"
        self._on_message = on_message
        self._ensure = ensure
        self._asked = 0
        self._heard_s = 0.0
        self._failures = 0
        self._inbox = ""
        self._subscription: Subscription | None = None
        self._forget_listener: Callable[[], None] = lambda: None
        self._recovery: asyncio.Task[None] | None = None
        self._watchdog: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Ask for the first messages."""
        self._inbox = self._connection.inbox()
        self._subscription = await self._connection.client.subscribe(self._inbox, cb=self._on_arrival)
        self._forget_listener = self._connection.on_reconnected(self._ask_anew)
        self._watchdog = asyncio.create_task(self._watch(), name=f"watch {self._name}")
        await self._ask_anew()

    async def stop(self) -> None:
        """Ask for no more. What the server has already sent still reaches the callback."""
        self._forget_listener()
        tasks = [task for task in (self._watchdog, self._recovery) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._subscription is not None:
            await self._connection.end_subscription(self._subscription)

    async def _on_arrival(self, msg: Msg) -> None:
        self._heard_s = asyncio.get_running_loop().time()
        status = status_of(msg)
        if status is None:
            self._asked -= 1
            self._failures = 0
            self._on_message(msg)
            if self._asked <= self._batch // 2:
                await self._ask(self._batch - max(self._asked, 0))
        elif status == _EXPIRED:
            headers = msg.headers or {}
            self._asked -= int(headers.get("Nats-Pending-Messages", self._asked))
            await self._ask(self._batch - max(self._asked, 0))
        elif status != _HEARTBEAT:
            description = (msg.headers or {}).get("Description", "")
            log.info("pull_refused", consumer=self._name, status=status, description=description)
            self._recover(ensure=status != _CONFLICT or "deleted" in description.lower())

    async def _ask_anew(self) -> None:
        self._asked = 0
        self._heard_s = asyncio.get_running_loop().time()
        await self._ask(self._batch)

    async def _ask(self, batch: int) -> None:
        if batch <= 0 or not self._connection.is_connected:
            return  # the reconnect asks
        self._asked += batch
        body = {"batch": batch, "expires": int(EXPIRES_S * 1e9), "idle_heartbeat": int(IDLE_HEARTBEAT_S * 1e9)}
        try:
            await self._connection.client.publish(self._subject, json.dumps(body).encode(), reply=self._inbox)
        except (NatsError, OSError) as error:
            log.warning("pull_failed", consumer=self._name, error=str(error))

    def _recover(self, *, ensure: bool) -> None:
        if self._recovery is None or self._recovery.done():
            self._recovery = asyncio.create_task(self._ask_after_wait(ensure=ensure), name=f"recover {self._name}")

    async def _ask_after_wait(self, *, ensure: bool) -> None:
        await asyncio.sleep(RETRY_S[min(self._failures, len(RETRY_S) - 1)])
        self._failures += 1
        if ensure:
            try:
                await self._ensure()
            except ServiceError as error:
                log.warning("consumer_not_there", consumer=self._name, error=str(error))
        await self._ask_anew()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(IDLE_HEARTBEAT_S)
            silence_s = asyncio.get_running_loop().time() - self._heard_s
            if self._connection.is_connected and silence_s > SILENCE_S_MAX:
                log.warning("pull_silent", consumer=self._name, silence_s=round(silence_s, 1))
                self._recover(ensure=True)
