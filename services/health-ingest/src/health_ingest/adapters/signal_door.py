"""Opens the door for other systems' signals: a TCP port that nobody enters without the token."""

from __future__ import annotations

import asyncio

from health_ingest.adapters.signal_pages import make_app
from health_ingest.application.take_foreign import TakeForeign
from service_kit.logging import get_logger
from service_kit.web.guard import Door
from service_kit.web.site import GuardedSite
from service_kit.web.token import BearerToken

STOP_LIMIT_S = 2.0

_log = get_logger(__name__)


class SignalDoor:
    """service_kit.ports.Subscription: `stop` closes it."""

    def __init__(self, taking: TakeForeign, token: BearerToken) -> None:
        self._site = GuardedSite(make_app(taking))
        # By name from anywhere: whoever has the token may come in, under whatever name the service has.
        self._door = Door(token=token, by_name=True)
        self._server: asyncio.Server | None = None
        self.port = 0

    async def open(self, host: str, port: int) -> None:
        """Listen.

        Raises:
            OSError: the address is taken, or not ours.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: self._site.connection(self._door), host, port)
        self.port = self._server.sockets[0].getsockname()[1]
        _log.info("signals_door_open", host=host, port=self.port)

    async def stop(self) -> None:
        """Listen no more, and end what is in hand."""
        if self._server is not None:
            self._server.close()
        await self._site.stop(STOP_LIMIT_S)
