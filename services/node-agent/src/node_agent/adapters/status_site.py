"""Puts the status API together: pages, guard and protocol. The one module that status_server loads late."""

from __future__ import annotations

import asyncio
import time

from uvicorn.server import ServerState

from node_agent.adapters.status_app import StatusPages, make_app
from node_agent.adapters.status_guard import Door, Guard, RateLimit
from node_agent.adapters.status_protocol import BoundedProtocol, HttpSite


class StatusSite:
    """status_server.Site: one application behind several doors, which share the limits."""

    def __init__(self, pages: StatusPages) -> None:
        self._app = make_app(pages)
        self._app.openapi()  # made here, in the loading thread, and not while the loop waits for it
        self._state = ServerState()
        self._rate = RateLimit(time.monotonic, at_s=time.monotonic())
        self._sites: dict[Door, HttpSite] = {}

    def connection(self, door: Door) -> BoundedProtocol:
        """See status_server.Site."""
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
