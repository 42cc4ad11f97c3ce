"""One application behind several doors, which share the limits: guard and protocol put together."""

from __future__ import annotations

import asyncio
import time

from uvicorn.server import ServerState

from service_kit.web.guard import App, Door, Guard, RateLimit
from service_kit.web.protocol import BoundedProtocol, HttpSite


class GuardedSite:
    """Makes the protocol of each connection."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._state = ServerState()
        self._rate = RateLimit(time.monotonic, at_s=time.monotonic())
        self._sites: dict[Door, HttpSite] = {}

    def connection(self, door: Door) -> BoundedProtocol:
        """A protocol for the next client of a door."""
        site = self._sites.get(door)
        if site is None:
            site = self._sites[door] = HttpSite(Guard(self._app, door, self._rate), self._state)
        return site.connection()

    async def stop(self, limit_s: float) -> None:
        """End all connections and what still works for them."""
        for connection in list(self._state.connections):
            connection.transport.abort()
        tasks = set(self._state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=limit_s)
