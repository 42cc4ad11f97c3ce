"""application.node_action_ports.OwnWatch on the host role's board: what a GPU looks like after it was acted on."""

from __future__ import annotations

from collections.abc import Sequence

from fault_contracts.health import Component
from fault_contracts.inventory import DeviceIdentity
from node_agent.adapters.gpu_watch_gate import GpuWatchGate
from node_agent.domain.host_board import HostBoard
from node_agent.domain.observation import Observation
from service_kit.clock import SystemClock

POLL_S = 0.5


class BoardWatch:
    """Pauses the collectors that hold GPUs, and waits for looks that are younger than the reset."""

    def __init__(self, board: HostBoard, gate: GpuWatchGate, clock: SystemClock) -> None:
        self._board = board
        self._gate = gate
        self._clock = clock

    async def pause(self) -> None:
        """See the port."""
        await self._gate.pause()

    async def resume(self) -> None:
        """See the port."""
        self._gate.resume()

    async def fresh(self, device: DeviceIdentity, *, limit_s: float) -> Sequence[Observation] | None:
        """See the port. Complete when no row of the device is older than the call."""
        began_s = self._clock.monotonic_s()
        names = {device.device_id, device.pci_bus_id} - {""}
        while True:
            rows = [
                row
                for row in self._board.table()
                if row.observation.component is Component.GPU and row.observation.component_id in names
            ]
            looks = [row for row in rows if not row.event]
            young = [row for row in rows if row.seen_s > began_s]
            if looks and all(row.seen_s > began_s for row in looks):
                return [row.observation for row in young]
            if self._clock.monotonic_s() - began_s >= limit_s:
                return None
            await self._clock.sleep(POLL_S)
