"""An event source whose events somebody else hears too: NVML's events have to know what the kernel log told."""

from __future__ import annotations

from collections.abc import Callable

from node_agent.application.collector_ports import Emit, EventSource
from node_agent.domain.observation import Observation


class Overheard:
    """The source itself, for whoever runs it."""

    def __init__(self, source: EventSource, heard: Callable[[Observation], None]) -> None:
        self._source = source
        self._heard = heard

    @property
    def name(self) -> str:
        """Of the source."""
        return self._source.name

    async def run(self, emit: Emit) -> None:
        """As the source."""

        def to_both(observation: Observation) -> None:
            self._heard(observation)
            emit(observation)

        await self._source.run(to_both)
