"""Event sources, started again when they fail, and the bounded queue between them and the outbox.

What does not fit is dropped and counted, and the count is a signal of its own: a storm must not cost the memory of the
machine that is being watched, and must not pass in silence either.
"""

from __future__ import annotations

import asyncio
from collections import deque

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.application.collector_ports import CollectorFailed, Emit, EventSource
from node_agent.application.host_reports import HostReports
from node_agent.domain.host_board import HostBoard
from node_agent.domain.look_schedule import STEADY_S, Watch, WatchState, backoff_s
from node_agent.domain.observation import Observation
from service_kit.logging import get_logger
from service_kit.ports import Clock

EVENTS_WAITING_MAX = 10_000
"""About 10 MB. A storm is folded where it is read: this many different events are minutes of a dying machine."""
BATCH_MAX = 256

log = get_logger(__name__)


class EventQueue:
    """Emit for all sources, and the one who carries their events to the outbox."""

    def __init__(self, board: HostBoard, reports: HostReports, clock: Clock) -> None:
        self._board = board
        self._reports = reports
        self._clock = clock
        self._waiting: deque[tuple[str, Observation]] = deque()
        self._news = asyncio.Event()
        self._dropped_untold = 0
        self.dropped = 0
        """Since the start."""

    def emit_for(self, source: str) -> Emit:
        """What a source calls. Never blocks, never raises."""

        def emit(observation: Observation) -> None:
            if len(self._waiting) >= EVENTS_WAITING_MAX:
                self.dropped += observation.count
                self._dropped_untold += observation.count
                return
            self._waiting.append((source, observation))
            self._news.set()

        return emit

    async def carry(self) -> None:
        """Until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            await self.carry_waiting()

    async def carry_waiting(self) -> None:
        """Hand over what waits now. An event leaves the queue when the outbox has it."""
        while self._waiting:
            batch = [self._waiting[place] for place in range(min(BATCH_MAX, len(self._waiting)))]
            await self._reports.events(batch)
            for source, observation in batch:
                self._waiting.popleft()
                self._board.happened(source, observation, now_s=self._clock.monotonic_s())
        if self._dropped_untold:
            lost, self._dropped_untold = self._dropped_untold, 0
            log.error("events_dropped", count=lost)
            self.emit_for("events")(
                Observation(
                    component=Component.AGENT,
                    check="events_dropped",
                    health=Health.BAD,
                    detail=f"{lost} events came faster than they could be stored and are lost",
                    count=lost,
                    observed_at=self._clock.now(),
                )
            )
            await self.carry_waiting()


class EventFollower:
    """Keeps one source running until cancelled, or until the source says that there is nothing to watch."""

    def __init__(self, source: EventSource, emit: Emit, clock: Clock) -> None:
        self._source = source
        self._emit = emit
        self._clock = clock
        self._runs_since_s: float | None = None
        self.watch = Watch(name=source.name)

    @property
    def name(self) -> str:
        """Of the source."""
        return self._source.name

    async def run(self) -> None:
        """Run it, and again after a failure."""
        while True:
            self._runs_since_s = self._clock.monotonic_s()
            try:
                await self._source.run(self._emit)
            except CollectorFailed as error:
                problem = str(error)
            except Exception as error:
                log.exception("event_source_broken", source=self._source.name)
                problem = f"{self._source.name} failed: {type(error).__name__}: {error}"
            else:
                self.watch = Watch(name=self._source.name, state=WatchState.ABSENT, problem="nothing to watch here")
                return
            self.look()
            self._runs_since_s = None
            self.watch = self.watch.missed(problem)
            log.warning("event_source_failed", source=self._source.name, problem=problem, failures=self.watch.misses)
            await self._clock.sleep(backoff_s(self.watch.misses))

    def look(self) -> Observation | None:
        """The source as a row for the table; None where it has nothing to watch."""
        if self.watch.state is WatchState.ABSENT:
            return None
        now_s = self._clock.monotonic_s()
        ran_s = 0.0 if self._runs_since_s is None else now_s - self._runs_since_s
        if self._runs_since_s is not None and (not self.watch.misses or ran_s >= STEADY_S):
            self.watch = self.watch.answered(now_s=now_s, took_s=0.0)
        return self.watch.observation(self._clock.now())
