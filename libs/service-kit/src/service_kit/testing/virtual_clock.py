"""Time under a test's control: a clock moved by hand, and an event loop that jumps to the next timer.

`VirtualClock` works in any loop; only what sleeps through it is virtual. `run_virtual` runs a whole program on virtual
time, so that asyncio's own timers and time-outs jump too: a day passes in the time its events take.
"""

from __future__ import annotations

import asyncio
import heapq
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, TypeVar

EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
"""Where virtual time begins; any fixed moment does."""
SPINS_MAX = 20_000
TURNS_MAX = 200_000
"""Turns of the loop at one moment of virtual time. A message costs some ten; so many are a loop that never ends."""

T = TypeVar("T")


class VirtualClock:
    """service_kit.ports.Clock, moved by `advance` only."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start
        self._elapsed_s = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def now(self) -> datetime:
        """See the port."""
        return self._start + timedelta(seconds=self._elapsed_s)

    def monotonic_s(self) -> float:
        """See the port."""
        return self._elapsed_s

    async def sleep(self, duration_s: float) -> None:
        """Wait until `advance` passes this moment. Sleepers of the same moment wake in the order they came."""
        if duration_s <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed_s + duration_s, next(self._order), woken))
        await woken

    async def advance(self, duration_s: float) -> None:
        """Let this much time pass, waking each sleeper at its moment and letting it run before the next."""
        until_s = self._elapsed_s + duration_s
        await self.run_until_idle()
        while self._sleepers and self._sleepers[0][0] <= until_s:
            at_s, _, woken = heapq.heappop(self._sleepers)
            if woken.done():
                continue  # its task was cancelled
            self._elapsed_s = max(self._elapsed_s, at_s)
            woken.set_result(None)
            await self.run_until_idle()
        self._elapsed_s = until_s

    async def run_until_idle(self) -> None:
        """Let every task run that can, without time passing.

        Raises:
            RuntimeError: it never ends, so something spins.
        """
        loop = asyncio.get_running_loop()
        ready: Any = getattr(loop, "_ready", None)
        for _ in range(SPINS_MAX):
            await asyncio.sleep(0)
            # What is ready after our own turn is somebody else's work. A loop that hides its queue gets 200 turns.
            if ready is not None and not ready:
                return
            if ready is None and _ > 200:
                return
        raise RuntimeError(f"still busy after {SPINS_MAX} turns of the loop: something spins")


class LoopClock:
    """service_kit.ports.Clock on the running loop's time; inside `run_virtual` that time is virtual."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start

    def now(self) -> datetime:
        """See the port."""
        return self._start + timedelta(seconds=self.monotonic_s())

    def monotonic_s(self) -> float:
        """See the port."""
        return asyncio.get_running_loop().time()

    async def sleep(self, duration_s: float) -> None:
        """See the port."""
        await asyncio.sleep(duration_s)


class Deadlock(RuntimeError):
    """Every task waits and no timer is set: nothing can ever happen."""


class _JumpingSelector(selectors.DefaultSelector):
    """Does not wait: moves the loop's time to the next timer instead."""

    loop: VirtualLoop
    turns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if events or timeout == 0:
            self.turns += 1
            if self.turns > TURNS_MAX:
                self.turns = 0
                raise Deadlock(f"{TURNS_MAX} turns of the loop and no time passed: something spins")
            return events
        self.turns = 0
        if timeout is None:
            raise Deadlock("every task waits and no timer is set")
        self.loop.elapsed_s += timeout
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only when everybody waits."""

    def __init__(self) -> None:
        self.elapsed_s = 0.0
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        """Virtual seconds since the start."""
        return self.elapsed_s


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """asyncio.run on virtual time. No sockets, no threads: they would take real time.

    Raises:
        Deadlock: every task waits for another one.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
