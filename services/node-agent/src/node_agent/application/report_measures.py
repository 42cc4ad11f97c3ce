"""Tells the numbers of the board sweep by sweep, so that they can be held against those of the peers.

Not through the outbox: an old number says nothing about now, and a lost one is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from fault_contracts.envelope import seal
from fault_contracts.measures import MeasuresReported
from node_agent.application.host_reports import HostIdentity
from node_agent.domain.observation import Observation
from node_agent.domain.peer_measures import gpu_measures, link_measures
from service_kit.errors import TransientError
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock

Rows = Callable[[], Sequence[Observation]]
_log = get_logger(__name__)


class MeasuresReports:
    """`rows`: the newest of everything, as the board has it."""

    def __init__(
        self,
        identity: HostIdentity,
        bus: Bus,
        clock: Clock,
        rows: Callable[[], Sequence[Observation]],
        *,
        sweep_s: float,
    ) -> None:
        self._identity = identity
        self._bus = bus
        self._clock = clock
        self._rows = rows
        self._sweep_s = sweep_s
        self._sweeps = count()

    async def run(self) -> None:
        """One report a sweep, until cancelled. A machine without devices to compare says nothing."""
        while True:
            await self._clock.sleep(self._sweep_s)
            await self.tell()

    async def tell(self) -> None:
        """One report; the sweep counts on also when the bus is away."""
        rows, sweep = self._rows(), next(self._sweeps)
        gpus, links = gpu_measures(rows), link_measures(rows)
        if not gpus and not links:
            return
        now, me = self._clock.now(), self._identity
        report = MeasuresReported(
            node_id=me.node_id, instance_id=me.instance_id, sweep=sweep, gpus=gpus, links=links, measured_at=now
        )
        source, ordinal = f"node-agent/{me.node_id}", f"measures/{sweep}"
        try:
            await self._bus.publish(seal(report, source=source, cause_id=me.instance_id, ordinal=ordinal, time=now))
        except TransientError as error:
            _log.debug("measures_not_told", sweep=sweep, error=str(error))
