"""One wake-up of the event loop for the output of all ranks, however many lines come one by one.

A wake-up costs more than the line that caused it. All pipes hang on one epoll object, which the loop watches; after a
look it rests for a moment, unless so much came that rest would fill a pipe and hold a rank up.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable

REST_S = 0.05
"""Nobody sees it on a terminal; detection by a log rule is late by at most this much. The end of a rank does not wait
for it: its pipes are emptied then."""
REST_BYTES_MAX = 16 * 1024
"""From a stream that gives more at once there is more to come: a quarter of the smallest pipe (64 KB)."""


class OutputPump:
    """Calls back for each descriptor that can be read."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._callbacks: dict[int, Callable[[], int]] = {}
        self._epoll: select.epoll | None = None
        self._resting: asyncio.TimerHandle | None = None

    def add(self, descriptor: int, read: Callable[[], int]) -> None:
        """Watch a descriptor; `read` returns how many bytes it took."""
        self._callbacks[descriptor] = read
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._look)
        self._epoll.register(descriptor, select.EPOLLIN)

    def remove(self, descriptor: int) -> None:
        """Forget a descriptor, before it is closed. The last one takes the epoll object along."""
        if self._callbacks.pop(descriptor, None) is None or self._epoll is None:
            return
        self._epoll.unregister(descriptor)
        if self._callbacks:
            return
        if self._resting is not None:
            self._resting.cancel()
            self._resting = None
        else:
            self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        self._epoll = None

    def _look(self) -> None:
        assert self._epoll is not None, "watched while there is something to watch"
        most = 0
        for descriptor, _ in self._epoll.poll(0):
            read = self._callbacks.get(descriptor)
            if read is not None:
                most = max(most, read())
        if self._callbacks and most < REST_BYTES_MAX:
            self._loop.remove_reader(self._epoll.fileno())
            self._resting = self._loop.call_later(REST_S, self._resume)

    def _resume(self) -> None:
        self._resting = None
        assert self._epoll is not None, "a rest ends with the last descriptor"
        self._loop.add_reader(self._epoll.fileno(), self._look)
