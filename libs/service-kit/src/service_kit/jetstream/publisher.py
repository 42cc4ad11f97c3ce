"""Publish into streams with a deadline per message.

nats-py's own `publish_async` leaves its future pending for ever when the server answers with an error, and
acknowledgements lost in a server's death are never asked for again. Here every message has one deadline; until then it
is sent again after a reconnect or a silence, and the stream drops the copy by its Nats-Msg-Id.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import count

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import MaxPayloadError

from service_kit.errors import BusUnavailable, NoPermission, PermanentError
from service_kit.jetstream.connection import Connection
from service_kit.jetstream.denials import WHAT_TO_DO
from service_kit.jetstream.server_answer import PublishAck, read_ack, status_of

RESEND_S = 2.0
"""Silence after which a message is sent again; a healthy stream answers within milliseconds (p99 6 ms with fsync)."""
NO_STREAM_WAIT_S = (0.02, 0.05, 0.1, 0.25, 0.5)
"""Between attempts while no stream answers (a server that just restarted); the last one repeats."""


@dataclass(slots=True, kw_only=True)
class _Waiting:
    subject: str
    answer: asyncio.Future[Msg | None]
    """None: send it again."""


class Publisher:
    """One wildcard reply inbox, any number of messages in flight."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._inbox = ""
        self._subscription: Subscription | None = None
        self._starting = asyncio.Lock()
        self._tokens = count(1)
        self._waiting: dict[str, _Waiting] = {}

    async def publish(self, subject: str, body: bytes, headers: dict[str, str], *, limit_s: float) -> PublishAck:
        """Store one message.

        Args:
            subject: where.
            body: what.
            headers: without a Nats-Msg-Id one is made up that is unique to this call, so that only its own copies are
                dropped (compare-and-set: the first copy counts, and its answer is given again).
            limit_s: until then it is acknowledged or the call fails.

        Raises:
            ServerRefusal: the stream answered with an error.
            NoPermission: the server denies the subject.
            PermanentError: larger than the server takes.
            BusUnavailable: not acknowledged in time.
        """
        if self._subscription is None:
            await self._start()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + limit_s
        token = str(next(self._tokens))
        headers.setdefault("Nats-Msg-Id", f"{self._inbox}.{token}")
        why = "no connection"
        attempt = 0
        try:
            while (rest_s := deadline_s - loop.time()) > 0:
                if not await self._connection.wait_connected(rest_s):
                    break
                waiting = _Waiting(subject=subject.lower(), answer=loop.create_future())
                self._waiting[token] = waiting
                answer = await self._send_once(subject, body, headers, token, waiting, min(rest_s, RESEND_S))
                status = None if answer is None else status_of(answer)
                if answer is not None and status is None:
                    return read_ack(answer, f"publish on {subject}")
                if status is None:
                    why = "no acknowledgement"
                else:
                    # 503: the server knows that no stream listens, so the message was not stored.
                    why = "no stream listens on the subject, or JetStream is not up"
                    pause_s = NO_STREAM_WAIT_S[min(attempt, len(NO_STREAM_WAIT_S) - 1)]
                    await asyncio.sleep(min(pause_s, max(0.0, deadline_s - loop.time())))
                attempt += 1
        finally:
            self._waiting.pop(token, None)
        # An inbox that is not ours to hear (NATS_INBOX_PREFIX) looks like a stream that never answers.
        self._connection.denials.raise_if_denied(f"{self._inbox}.*", "hearing acknowledgements", listening=True)
        raise BusUnavailable(f"publish on {subject}: {why} within {limit_s:g} s")

    async def _send_once(
        self, subject: str, body: bytes, headers: dict[str, str], token: str, waiting: _Waiting, limit_s: float
    ) -> Msg | None:
        try:
            await self._connection.client.publish(subject, body, reply=f"{self._inbox}.{token}", headers=headers)
            async with asyncio.timeout(limit_s):
                return await waiting.answer
        except TimeoutError:
            return None
        except MaxPayloadError as error:
            raise PermanentError(f"publish on {subject}: {len(body)} bytes are more than the server takes") from error
        except (NatsError, OSError) as error:
            if self._connection.closed.is_set():
                raise BusUnavailable(f"publish on {subject}: the connection is closed") from error
            # The connection broke under the write: wait_connected decides when to try again.
            await asyncio.sleep(NO_STREAM_WAIT_S[0])
            return None

    async def _start(self) -> None:
        async with self._starting:
            if self._subscription is not None:
                return
            self._inbox = self._connection.inbox()
            self._connection.on_reconnected(self._send_all_again)
            self._connection.denials.on_denial(self._fail_denied)
            self._subscription = await self._connection.client.subscribe(f"{self._inbox}.*", cb=self._on_answer)

    async def _on_answer(self, msg: Msg) -> None:
        waiting = self._waiting.get(msg.subject.rpartition(".")[2])
        if waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(msg)

    async def _send_all_again(self) -> None:
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_result(None)

    def _fail_denied(self, subject: str, text: str) -> None:
        for waiting in self._waiting.values():
            if waiting.subject == subject and not waiting.answer.done():
                waiting.answer.set_exception(NoPermission(f"publish on {subject}: {text}; {WHAT_TO_DO}"))
