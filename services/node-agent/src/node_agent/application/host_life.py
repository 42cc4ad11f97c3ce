"""The life of the host role: collectors and event sources run, the board is kept, and what matters of it is told.

The whole table goes out when every collector has had its first look, after a reconnect, and now and then; between those
only what a look brought that is not well. The inventory follows the directory of devices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass

from node_agent.application.collector_ports import Collector, EventSource
from node_agent.application.follow_events import EventFollower, EventQueue
from node_agent.application.host_reports import HostIdentity, HostReports
from node_agent.application.run_collectors import CollectorRunner
from node_agent.domain.device_directory import Directory
from node_agent.domain.host_board import HostBoard
from node_agent.domain.look_schedule import Watch
from node_agent.domain.observation import Observation
from service_kit.cancellation import cancel_all
from service_kit.logging import get_logger
from service_kit.ports import Clock

ALL = "host"
"""Source of a message that carries rows of all collectors."""
TICK_S_MAX = 5.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPolicy:
    """How often what goes out.

    Attributes:
        sweep_s: the longest interval between full looks of a collector; three of them without one are silence.
        whole_s: between two tellings of the whole table, in case somebody lost one.
    """

    sweep_s: float = 30.0
    whole_s: float = 600.0


class HostLife:
    """Runs until cancelled. `driver_version`: what the machine says of its GPU driver, empty: nothing."""

    def __init__(
        self,
        identity: HostIdentity,
        reports: HostReports,
        directory: Directory,
        clock: Clock,
        *,
        collectors: Sequence[Collector],
        sources: Sequence[EventSource],
        policy: HostPolicy,
        driver_version: Callable[[], str] = lambda: "",
    ) -> None:
        self.identity = identity
        self.board = HostBoard()
        self._reports = reports
        self._directory = directory
        self._clock = clock
        self._policy = policy
        self._driver_version = driver_version
        self._runners = tuple(
            CollectorRunner(collector, self.board, clock, self._on_look, sweep_s=policy.sweep_s)
            for collector in collectors
        )
        self.queue = EventQueue(self.board, reports, clock)
        self._followers = tuple(EventFollower(source, self.queue.emit_for(source.name), clock) for source in sources)
        self._whole_wanted = asyncio.Event()
        self._whole_told = False
        self._inventory_told: tuple[int, str] | None = None

    def watches(self) -> tuple[Watch, ...]:
        """How every collector and event source stands."""
        runners, followers = (part.watch for part in self._runners), (part.watch for part in self._followers)
        return (*runners, *followers)

    async def on_reconnected(self) -> None:
        """The bus was away, and whoever reads it may have missed something."""
        self._whole_wanted.set()

    async def run(self) -> None:
        """Until cancelled."""
        work: list[Coroutine[None, None, None]] = [runner.run() for runner in self._runners]
        # What ends by itself (a source with nothing to watch) must not end the rest.
        work += [follower.run() for follower in self._followers]
        work += [self.queue.carry(), self._tell_whole(), self._tick()]
        tasks = [asyncio.create_task(one) for one in work]
        try:
            await asyncio.gather(*tasks)
        finally:
            await cancel_all(tasks)
            await self.queue.carry_waiting()
            await asyncio.gather(*(runner.close() for runner in self._runners))

    async def _on_look(self, source: str, told: tuple[Observation, ...]) -> None:
        if not self._whole_told:
            return  # the first whole table has it
        await self._reports.sweep(source, told, whole=False)
        await self._tell_inventory()

    async def _tell_whole(self) -> None:
        await asyncio.gather(*(runner.first_look.wait() for runner in self._runners))
        log.info("host_watches", collectors=[f"{watch.name}: {watch.state.value}" for watch in self.watches()])
        while True:
            self._whole_wanted.clear()
            self._renew_followers()
            await self._reports.sweep(ALL, self.board.whole(), whole=True)
            self._whole_told = True
            await self._tell_inventory()
            try:
                async with asyncio.timeout(self._policy.whole_s):
                    await self._whole_wanted.wait()
            except TimeoutError:
                log.debug("whole_table_due")

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(min(TICK_S_MAX, self._policy.sweep_s))
            told = self._renew_followers()
            silent = self.board.expire(now_s=self._clock.monotonic_s(), at=self._clock.now())
            if silent:
                log.warning("rows_became_unknown", count=len(silent), first=silent[0].check)
            if self._whole_told:
                await self._reports.sweep(ALL, (*told, *silent), whole=False)

    def _renew_followers(self) -> tuple[Observation, ...]:
        told: list[Observation] = []
        for follower in self._followers:
            row = follower.look()
            if row is not None:
                told += self.board.take(
                    follower.name, (row,), interval_s=self._policy.sweep_s, now_s=self._clock.monotonic_s()
                )
        return tuple(told)

    async def _tell_inventory(self) -> None:
        driver_version = self.board.value("driver_version", "driver_version") or self._driver_version()
        state = (self._directory.version, driver_version)
        if state != self._inventory_told:
            self._inventory_told = state
            await self._reports.inventory(self._directory.all(), driver_version=driver_version)
