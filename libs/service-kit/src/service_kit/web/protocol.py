"""uvicorn's HTTP protocol with the bounds that it does not have itself. Imported only when somebody asks.

uvicorn bounds a head's size and, after an answer, the silence. A client that connects and says nothing, or takes no
answer, would keep its descriptor for ever; enough of them, and the service could not work any more.
"""

from __future__ import annotations

import asyncio
import logging

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from service_kit.web.guard import App
from service_kit.web.problems import raw_response

CONNECTIONS_MAX = 32
"""A scraper, a few people and their scripts."""
CONNECTION_S_MAX = 15.0
"""From connect to close, whatever the client does; the slowest answer (/stacks) takes two seconds."""
HEAD_BYTES_MAX = 16 * 1024
UNSENT_BYTES_MAX = 512 * 1024
"""The largest answer is below it; a client that does not read costs this much memory for CONNECTION_S_MAX."""


class BoundedProtocol(H11Protocol):
    """One connection with an end."""

    _deadline: asyncio.TimerHandle | None = None
    _admitted = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        """Take it, or turn it away at once."""
        if len(self.connections) >= CONNECTIONS_MAX:
            transport.write(raw_response(503, f"{CONNECTIONS_MAX} connections are open; close some and ask again"))
            transport.close()
            return
        self._admitted = True
        self._deadline = self.loop.call_later(CONNECTION_S_MAX, transport.abort)
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=UNSENT_BYTES_MAX)

    def data_received(self, data: bytes) -> None:
        """Bytes of a client that was taken."""
        if self._admitted:
            super().data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        if self._deadline is not None:
            self._deadline.cancel()
        if self._admitted:
            super().connection_lost(exc)


class HttpSite:
    """One application, as a factory of connections."""

    def __init__(self, app: App, state: ServerState) -> None:
        # What a foreign client sends wrong is no news in our log, and there would be no end of it.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        self._state = state
        self._config = Config(
            app,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=5,
            h11_max_incomplete_event_size=HEAD_BYTES_MAX,
        )
        self._config.load()

    def connection(self) -> BoundedProtocol:
        """A protocol for the next client."""
        return BoundedProtocol(config=self._config, server_state=self._state, app_state={})
