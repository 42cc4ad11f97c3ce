"""Deadlines by key, each handled when it is due: exact timers on the Clock port, not a poll.

A heap with lazy removal. What is due lives in the services' records; this is only the alarm, rebuilt at start.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Awaitable, Callable
from datetime import datetime

from service_kit.ports import Clock

KEYS_MAX = 1_000_000
"""Some 200 MB of keys: whoever passes it has a leak, and an assertion names it before the kernel does."""


class Deadlines:
    """At most one deadline per key; setting it again moves it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: dict[str, datetime] = {}
        self._heap: list[tuple[datetime, str]] = []
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def set(self, key: str, due_at: datetime | None) -> None:
        """Move the deadline of a key; None drops it."""
        if due_at is None:
            self._due.pop(key, None)
            return
        if self._due.get(key) == due_at:
            return
        assert len(self._due) < KEYS_MAX, "too many deadlines"
        self._due[key] = due_at
        heapq.heappush(self._heap, (due_at, key))
        self._changed.set()

    async def run(self, handle: Callable[[str], Awaitable[None]]) -> None:
        """Call `handle(key)` for each deadline as it passes, one at a time, until cancelled.

        `handle` owns its retries: it sets the key again when it could not do its work.
        """
        while True:
            self._changed.clear()
            due_at = self._next()
            if due_at is None:
                await self._changed.wait()
                continue
            wait_s = (due_at - self._clock.now()).total_seconds()
            if wait_s > 0:
                await self._wait(wait_s)
                continue
            _, key = heapq.heappop(self._heap)
            del self._due[key]
            await handle(key)

    def _next(self) -> datetime | None:
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    async def _wait(self, wait_s: float) -> None:
        """Until the time is up or an earlier deadline was set."""
        sleep = asyncio.ensure_future(self._clock.sleep(wait_s))
        change = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait((sleep, change), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            change.cancel()
            await asyncio.gather(sleep, change, return_exceptions=True)
