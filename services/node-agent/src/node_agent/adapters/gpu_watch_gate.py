"""Lets go of the GPUs for a while: a reset needs that nobody holds them, and the agent's own look does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from node_agent.application.collector_ports import Collector, CollectorFailed, Emit, EventSource
from node_agent.domain.observation import Observation
from service_kit.cancellation import cancel_all

CLOSE_S = 10.0
"""For the child process that reads the driver to end."""


class GpuWatchGate:
    """Wraps what holds GPUs open; everything wrapped is paused and resumed together."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._closed = asyncio.Event()
        self._collectors: list[Collector] = []
        self._quiet: list[asyncio.Event] = []

    def wrap(
        self, collectors: Sequence[Collector], sources: Sequence[EventSource], *, prefix: str
    ) -> tuple[list[Collector], list[EventSource]]:
        """Put this gate before those whose name begins with `prefix`."""
        return (
            [self.collector(one) if one.name.startswith(prefix) else one for one in collectors],
            [self.source(one) if one.name.startswith(prefix) else one for one in sources],
        )

    @property
    def is_open(self) -> bool:
        """Nothing is paused."""
        return self._open.is_set()

    def collector(self, inner: Collector) -> Collector:
        """The same collector, which fails with a reason while paused."""
        self._collectors.append(inner)
        return _GatedCollector(inner, self)

    def source(self, inner: EventSource) -> EventSource:
        """The same source, which is ended while paused and then begun again."""
        quiet = asyncio.Event()
        quiet.set()
        self._quiet.append(quiet)
        return _GatedSource(inner, self._open, self._closed, quiet)

    async def pause(self) -> None:
        """Returns when everything wrapped has let go.

        Raises:
            TimeoutError: something did not in time.
        """
        self._open.clear()
        self._closed.set()
        async with asyncio.timeout(CLOSE_S):
            for collector in self._collectors:
                await collector.close()
            for quiet in self._quiet:
                await quiet.wait()

    def resume(self) -> None:
        """Look again."""
        self._closed.clear()
        self._open.set()


class _GatedCollector:
    def __init__(self, inner: Collector, gate: GpuWatchGate) -> None:
        self._inner = inner
        self._gate = gate

    @property
    def name(self) -> str:
        """Slug."""
        return self._inner.name

    @property
    def interval_s(self) -> float:
        """Of the collector."""
        return self._inner.interval_s

    @property
    def deadline_s(self) -> float:
        """Of the collector."""
        return self._inner.deadline_s

    async def collect(self) -> Sequence[Observation]:
        """A look, or the reason why there is none."""
        if not self._gate.is_open:
            raise CollectorFailed("paused while a GPU is reset")
        return await self._inner.collect()

    async def close(self) -> None:
        """Of the collector."""
        await self._inner.close()


class _GatedSource:
    def __init__(self, inner: EventSource, opened: asyncio.Event, closed: asyncio.Event, quiet: asyncio.Event) -> None:
        self._inner = inner
        self._opened = opened
        self._closed = closed
        self._quiet = quiet

    @property
    def name(self) -> str:
        """Slug."""
        return self._inner.name

    async def run(self, emit: Emit) -> None:
        """Until cancelled, or until the source has nothing to tell."""
        while True:
            await self._opened.wait()
            self._quiet.clear()
            running = asyncio.create_task(self._inner.run(emit))
            closing = asyncio.create_task(self._closed.wait())
            try:
                await asyncio.wait({running, closing}, return_when=asyncio.FIRST_COMPLETED)
                if running.done():
                    return running.result()
            finally:
                await cancel_all([running, closing])
                self._quiet.set()
