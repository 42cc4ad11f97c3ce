"""Work in order within one key and side by side over keys: one task per key that has something to do."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class KeyedWork(Generic[T]):
    """Hands items to `handle`, one at a time per key. The caller bounds what it adds (max_ack_pending, or a count)."""

    def __init__(self, handle: Callable[[T], Awaitable[None]]) -> None:
        self._handle = handle
        self._queues: dict[str, deque[T]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.size = 0
        """Items queued or in hand."""

    def add(self, key: str, item: T) -> None:
        """Queue an item behind the others of its key. `handle` must not raise."""
        self.size += 1
        queue = self._queues.get(key)
        if queue is not None:
            queue.append(item)
            return
        queue = self._queues[key] = deque((item,))
        task = asyncio.get_running_loop().create_task(self._work(key, queue))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self, limit_s: float) -> list[T]:
        """Finish what is in hand (cancelled after `limit_s`); returns what was only queued."""
        left: list[T] = []
        for queue in self._queues.values():
            left.extend(queue)
            queue.clear()
        self.size -= len(left)
        if self._tasks:
            _, late = await asyncio.wait(tuple(self._tasks), timeout=limit_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        return left

    def kill(self) -> None:
        """Cancel everything now, without waiting: what was in hand is left as it is."""
        for queue in self._queues.values():
            queue.clear()
        for task in self._tasks:
            task.cancel()

    async def _work(self, key: str, queue: deque[T]) -> None:
        try:
            while queue:
                item = queue.popleft()
                try:
                    await self._handle(item)
                finally:
                    self.size -= 1
        finally:
            # An item added after the last `popleft` found this queue still registered, so it is in it: nothing is lost.
            self.size -= len(queue)
            del self._queues[key]
