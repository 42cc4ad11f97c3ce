"""Every collector on its own interval, with its own deadline; one that hangs or fails does not touch the others.

A look that does not come back is cancelled and left behind. At most LEFT_BEHIND_MAX of one collector may hang at a
time: while they do, no further one is started, and the collector is stuck, which its row says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from node_agent.application.collector_ports import Collector, CollectorFailed
from node_agent.domain.host_board import HostBoard
from node_agent.domain.look_schedule import Watch, WatchState, next_look_s
from node_agent.domain.observation import Observation
from service_kit.logging import get_logger
from service_kit.ports import Clock

LEFT_BEHIND_MAX = 2
CLOSE_LIMIT_S = 5.0

log = get_logger(__name__)
Look = asyncio.Task[Sequence[Observation]]
OnLook = Callable[[str, tuple[Observation, ...]], Awaitable[None]]
"""Gets what has to go out of one look, with the collector's name."""


class CollectorRunner:
    """Runs one collector until cancelled.

    `sweep_s`: longest interval between full looks; a collector that looks oftener need not see everything each time.
    """

    def __init__(
        self, collector: Collector, board: HostBoard, clock: Clock, on_look: OnLook, *, sweep_s: float
    ) -> None:
        self._collector = collector
        self._board = board
        self._clock = clock
        self._on_look = on_look
        self._interval_s = max(collector.interval_s, sweep_s)
        self._left_behind: set[Look] = set()
        self.watch = Watch(name=collector.name)
        self.first_look = asyncio.Event()
        """Set after the first look, whatever came of it."""

    async def run(self) -> None:
        """Look, and again, on a fixed grid."""
        began_s = self._clock.monotonic_s()
        while True:
            await self.look()
            now_s = self._clock.monotonic_s()
            await self._clock.sleep(next_look_s(began_s, self._collector.interval_s, now_s) - now_s)

    async def look(self) -> None:
        """One look. Never raises for what the collector does."""
        before, seen = self.watch, await self._seen()
        if self.watch.problem != before.problem:
            self._tell_change()
        rows = (*seen, self.watch.observation(self._clock.now()))
        told = self._board.take(
            self._collector.name, rows, interval_s=self._interval_s, now_s=self._clock.monotonic_s()
        )
        await self._on_look(self._collector.name, told)
        self.first_look.set()

    async def close(self) -> None:
        """End what is under way, and let the collector give back what it holds."""
        for look in self._left_behind:
            look.cancel()
        try:
            async with asyncio.timeout(CLOSE_LIMIT_S):
                await self._collector.close()
        except Exception as error:  # noqa: BLE001 - it is told, and the end goes on
            log.warning(
                "collector_not_closed", collector=self._collector.name, error=f"{type(error).__name__}: {error}"
            )

    async def _seen(self) -> Sequence[Observation]:
        name, deadline_s = self._collector.name, self._collector.deadline_s
        if len(self._left_behind) >= LEFT_BEHIND_MAX:
            problem = f"{len(self._left_behind)} looks of {name} hang; no further one is started until one comes back"
            self.watch = self.watch.missed(problem, stuck=True)
            return ()
        began_s = self._clock.monotonic_s()
        look: Look = asyncio.create_task(self._collected(), name=f"look of {name}")
        try:
            await asyncio.wait({look}, timeout=deadline_s)
        except asyncio.CancelledError:
            look.cancel()
            raise
        if not look.done():
            self._left_behind.add(look)
            look.add_done_callback(self._came_back)
            look.cancel()
            self.watch = self.watch.missed(f"{name} did not answer within {deadline_s:g} s")
            return ()
        now_s = self._clock.monotonic_s()
        try:
            seen = look.result()
        except CollectorFailed as error:
            self.watch = self.watch.missed(str(error))
            return ()
        except Exception as error:
            log.exception("collector_broken", collector=name)
            self.watch = self.watch.missed(f"{name} failed: {type(error).__name__}: {error}")
            return ()
        self.watch = self.watch.answered(now_s=now_s, took_s=now_s - began_s)
        return seen

    async def _collected(self) -> Sequence[Observation]:
        return await self._collector.collect()

    def _came_back(self, look: Look) -> None:
        self._left_behind.discard(look)
        if not look.cancelled() and look.exception() is not None:
            log.debug("late_look_failed", collector=self._collector.name, error=str(look.exception()))

    def _tell_change(self) -> None:
        if self.watch.state is WatchState.WORKING:
            log.info("collector_works", collector=self._collector.name)
        elif self.watch.misses == 1:
            log.warning("collector_fails", collector=self._collector.name, problem=self.watch.problem)
