"""One connection to NATS: patient at the start, back by itself after a loss, drained at the end.

Two traps of nats-py are closed here: it gives up after sixty attempts and stays closed (we never give up, and tell
listeners when it closes for another reason), and a denied permission looks like a time-out (see denials.py).
"""

from __future__ import annotations

import asyncio
import os
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

from nats.aio.client import Server
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError, SlowConsumerError

from service_kit.cancellation import cancellable
from service_kit.errors import BusUnavailable, PermanentError
from service_kit.identity import Identity
from service_kit.jetstream.client_options import (
    CLOSE_LIMIT_S,
    RECONNECT_WAIT_S,
    ca_refresher,
    client_options,
    shown_url,
    who_we_are,
)
from service_kit.jetstream.denials import Denials
from service_kit.jetstream.patient_client import PatientClient
from service_kit.logging import get_logger
from service_kit.metrics import BUS_CONNECTED, MESSAGES_DROPPED, RECONNECTS
from service_kit.settings import BusSettings

LOG_EVERY_S = 3.0

Listener = Callable[[], Awaitable[None]]

log = get_logger(__name__)


class NoResponders(BusUnavailable):
    """The server knows that nobody listens on the subject."""


class Connection:
    """A NATS client with several listeners for each change of its state."""

    def __init__(self, *, name: str, seed: int) -> None:
        self.name = name
        self.client = PatientClient()
        self.closed = asyncio.Event()
        self._up = asyncio.Event()
        self._closing = False
        self._reconnected: list[Listener] = []
        self.denials = Denials()
        self._refresh_ca: Callable[[], None] = lambda: None
        self._seed = seed
        self._attempt = 0
        self._logged_at = float("-inf")
        self._refused: asyncio.Future[str] | None = None

    @property
    def identity(self) -> Identity | None:
        """Whom we signed in as; None: by other means, or not at all."""
        return self.client.identity

    @property
    def is_connected(self) -> bool:
        """Whether a server answers right now, as far as we know."""
        return self._up.is_set() and self.client.is_connected

    async def wait_connected(self, limit_s: float) -> bool:
        """Wait until connected; False when the limit passed first."""
        if self.is_connected:
            return True
        try:
            async with asyncio.timeout(limit_s):
                await self._up.wait()
        except TimeoutError:
            return False
        return self.is_connected

    def on_reconnected(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` after each reconnect; returns how to take it back."""
        self._reconnected.append(listener)
        return lambda: self._reconnected.remove(listener)

    def inbox(self) -> str:
        """A new private reply subject."""
        return self.client.new_inbox()

    async def request(
        self, subject: str, body: bytes = b"", *, limit_s: float, headers: dict[str, str] | None = None
    ) -> Msg:
        """Core NATS request.

        Raises:
            NoResponders: the server knows that nobody listens.
            NoPermission: the server denies it; said at once, not after the limit.
            BusUnavailable: no connection or no reply in time.
        """
        started_s = asyncio.get_running_loop().time()
        if not await self.wait_connected(limit_s):
            raise BusUnavailable(f"request on {subject}: no connection for {limit_s:g} s")
        rest_s = max(0.001, limit_s - (asyncio.get_running_loop().time() - started_s))
        try:
            async with asyncio.timeout(None) as wait:
                with self.denials.ending(subject, wait):
                    return await cancellable(self.client.request(subject, body, timeout=rest_s, headers=headers))
        except NoRespondersError as error:
            raise NoResponders(f"request on {subject}: nobody listens") from error
        except TimeoutError as error:  # nats-py's own as well
            self.denials.raise_if_denied(subject, f"request on {subject}")
            raise BusUnavailable(f"request on {subject}: no reply within {limit_s:g} s") from error
        except NatsError as error:
            raise BusUnavailable(f"request on {subject}: {error}") from error

    async def subscribed(self, *subscriptions: Subscription) -> None:
        """Return when subscriptions are in force; whatever is published from then on reaches them.

        Raises:
            NoPermission: the server denied one.
        """
        await self.settle()
        for each in subscriptions:
            self.denials.raise_if_denied(each.subject, f"listening to {each.subject}", listening=True)

    async def settle(self) -> None:
        """Return when the server has processed everything sent so far (a subscription is in force, ...).

        nats-py's `flush` writes its PING straight to the socket, ahead of commands that still wait for the flusher, so
        one round trip proves nothing; after the first the flusher has run, and the second counts.
        """
        if self.is_connected:
            try:
                await cancellable(self.client.flush())
                await cancellable(self.client.flush())
            except (NatsError, OSError) as error:
                log.warning("flush_incomplete", error=f"{type(error).__name__} {error}")

    async def end_subscription(self, subscription: Subscription) -> None:
        """Take interest back; what the server had sent by then still reaches the callback. Never raises."""
        if self.client.is_closed or self.client.is_draining:
            return
        try:
            async with asyncio.timeout(CLOSE_LIMIT_S):
                if self.is_connected:
                    # `drain` alone stops listening after one (overtaking) flush and loses what arrives meanwhile.
                    await self.client._send_unsubscribe(subscription._id)
                    await self.settle()
                    await subscription.drain()  # type: ignore[no-untyped-call]
                else:
                    await subscription.unsubscribe()
        except (TimeoutError, NatsError, OSError) as error:
            log.warning("unsubscribe_incomplete", subject=subscription.subject, error=f"{type(error).__name__} {error}")

    async def close(self) -> None:
        """Drain subscriptions and publishes, then close. Safe to call twice."""
        if self._closing:
            return
        self._closing = True
        try:
            async with asyncio.timeout(CLOSE_LIMIT_S):
                if self.client.is_connected:
                    await self.client.drain()
                else:
                    await self.client.close()
        except (TimeoutError, NatsError, OSError) as error:
            log.warning("bus_close_incomplete", error=str(error), type=type(error).__name__)
        if not self.client.is_closed:
            await self.client.close()

    # ------------------------------------------------------------------------------------ callbacks of nats-py

    async def _on_disconnected(self) -> None:
        if self._up.is_set() and not self._closing:
            log.warning("bus_disconnected", name=self.name)
        self._up.clear()
        BUS_CONNECTED.set(0)

    async def _on_reconnected(self) -> None:
        self._attempt = 0
        self._up.set()
        BUS_CONNECTED.set(1)
        RECONNECTS.inc()
        log.info("bus_reconnected", name=self.name)
        for listener in tuple(self._reconnected):
            try:
                await listener()
            except Exception:
                log.exception("bus_reconnect_listener_failed", name=self.name)

    async def _on_closed(self) -> None:
        if not self._closing:
            log.error("bus_closed", name=self.name, error=str(self.client.last_error))
        self._up.clear()
        BUS_CONNECTED.set(0)
        self.closed.set()

    async def _on_error(self, error: Exception) -> None:
        if isinstance(error, SlowConsumerError):
            MESSAGES_DROPPED.labels(reason="slow_consumer").inc()
            self._log_sometimes("bus_slow_consumer", subject=error.subject)
            return
        text = str(error)
        if self.denials.heard(text):
            return
        if self._refused is not None and not self._refused.done() and "authorization" in text.lower():
            self._refused.set_result(text)
        elif not self._up.is_set():
            self._log_sometimes("bus_unreachable", error=text or type(error).__name__)
        else:
            log.warning("bus_error", error=text, type=type(error).__name__)

    def _log_sometimes(self, event: str, **fields: Any) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._logged_at >= LOG_EVERY_S:
            self._logged_at = now_s
            log.warning(event, name=self.name, **fields)

    def _next_server(self, servers: list[Server], _info: dict[str, Any]) -> tuple[Server, float]:
        """Round robin; the first attempt at once, later ones after a jittered wait."""
        self._attempt += 1
        self._refresh_ca()
        chosen = servers[self._attempt % len(servers)]
        if self._attempt <= 1:
            return chosen, 0.0
        noise = zlib.crc32(f"{self._seed}:{self._attempt}".encode()) / 2**32
        return chosen, RECONNECT_WAIT_S * (1 - noise / 2)

    async def open(self, settings: BusSettings) -> None:
        """First connection; `connect` is the door."""
        self._refused = asyncio.get_running_loop().create_future()
        callbacks: dict[str, Any] = {
            "error_cb": self._on_error,
            "disconnected_cb": self._on_disconnected,
            "reconnected_cb": self._on_reconnected,
            "closed_cb": self._on_closed,
            "reconnect_to_server_handler": self._next_server,
        }
        identity = who_we_are(settings)
        options = client_options(settings, name=self.name, identity=identity)
        self._refresh_ca = ca_refresher(settings, options)
        if identity is not None:
            self.client.sign_in_as(lambda: who_we_are(settings) or identity)
        attempt = asyncio.create_task(self.client.connect(**options, **callbacks))
        try:
            async with asyncio.timeout(settings.connect_limit_s):
                futures: set[asyncio.Future[Any]] = {attempt, self._refused}
                await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError as error:
            await self._abandon(attempt)
            raise BusUnavailable(
                f"no NATS server answered at {shown_url(settings.nats_url)} within {settings.connect_limit_s:g} s "
                f"(NATS_URL; last error: {self.client.last_error or 'none'})"
            ) from error
        if not attempt.done():
            await self._abandon(attempt)
            raise PermanentError(
                f"NATS at {shown_url(settings.nats_url)} refused us{_as(identity)}: {self._refused.result()}"
            )
        try:
            attempt.result()
        except (NatsError, OSError, ValueError, TypeError) as error:
            raise PermanentError(f"cannot connect to {shown_url(settings.nats_url)}: {error}") from error
        self._refused = None
        self._up.set()
        BUS_CONNECTED.set(1)

    async def _abandon(self, attempt: asyncio.Task[None]) -> None:
        self._closing = True
        attempt.cancel()
        await asyncio.gather(attempt, return_exceptions=True)
        await self.client.close()


def _as(identity: Identity | None) -> str:
    """Whom we claimed to be; the public key is no secret."""
    return "" if identity is None else f" as {identity.name or 'a user without a name'} ({identity.key.public})"


async def connect(settings: BusSettings, *, name: str) -> Connection:
    """Connect, waiting for a server that is not there yet.

    Raises:
        BusUnavailable: none answered within `connect_limit_s`.
        PermanentError: refused (credentials), or the URL makes no sense.
    """
    connection = Connection(name=name, seed=os.getpid())
    await connection.open(settings)
    return connection
