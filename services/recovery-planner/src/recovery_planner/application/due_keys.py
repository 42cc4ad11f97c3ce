"""Keys that something has to be done about: each once, not before its time, and by one worker at a time."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

K = TypeVar("K")


class DueKeys(Generic[K]):
    """What is added while it waits is one; what is added while it is in hand is done again after that."""

    def __init__(self) -> None:
        self._ready: dict[K, None] = {}
        self._in_hand: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._work = asyncio.Event()

    def add(self, key: K) -> None:
        """Now."""
        self._forget_timer(key)
        if key in self._in_hand:
            self._again.add(key)
            return
        self._ready[key] = None
        self._work.set()

    def add_in(self, key: K, wait_s: float) -> None:
        """After so long, or earlier when it is added; the latest word counts."""
        self._forget_timer(key)
        self._timers[key] = asyncio.get_running_loop().call_later(max(wait_s, 0.0), self.add, key)

    async def take(self) -> K:
        """The one that has waited longest; `done` must follow."""
        while not self._ready:
            self._work.clear()
            await self._work.wait()
        key = next(iter(self._ready))
        del self._ready[key]
        self._in_hand.add(key)
        return key

    def done(self, key: K) -> None:
        """It may be taken again."""
        self._in_hand.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def close(self) -> None:
        """No timer fires any more."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    @property
    def idle(self) -> bool:
        """Nothing is due and nothing in hand."""
        return not self._ready and not self._in_hand

    def _forget_timer(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
