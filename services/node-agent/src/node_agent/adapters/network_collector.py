"""The collector `network`: ports of InfiniBand, RoCE, EFA and Ethernet adapters, read from sysfs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fault_contracts.inventory import DeviceIdentity, DeviceKind
from node_agent.adapters.daemon_calls import DaemonCalls
from node_agent.adapters.nic_sysfs import read_network
from node_agent.application.collector_ports import CollectorFailed, DeviceDirectory
from node_agent.domain.nic_health import NicWatch
from node_agent.domain.nic_reading import NetworkReading
from node_agent.domain.observation import Observation
from service_kit.logging import get_logger
from service_kit.ports import Clock

DEADLINE_S = 5.0
"""A counter of a port is a question to its firmware, some milliseconds; firmware that hangs never answers."""
HANGING_MAX = 2

log = get_logger(__name__)


class NetworkCollector:
    """application.collector_ports.Collector. A driver that hangs holds a thread, not the agent."""

    name = "network"
    deadline_s = DEADLINE_S + 1.0  # the thread's own limit comes first

    def __init__(
        self, *, sys_root: Path, interval_s: float, expected: int | None, directory: DeviceDirectory, clock: Clock
    ) -> None:
        self.interval_s = interval_s
        self._sys_root = sys_root
        self._directory = directory
        self._clock = clock
        self._watch = NicWatch(expected=expected)
        self._calls = DaemonCalls(name="network-look", limit=HANGING_MAX)
        self._told_absence = False

    async def collect(self) -> Sequence[Observation]:
        """See the port."""
        if not self._sys_root.is_dir():
            raise CollectorFailed(f"{self._sys_root} is not there (PHALANX_SYS_ROOT): no network port can be read")
        try:
            reading = await self._calls.run(self._read, limit_s=DEADLINE_S)
        except TimeoutError:
            raise CollectorFailed(f"reading the ports under {self._sys_root} took over {DEADLINE_S:g} s") from None
        except OSError as error:
            raise CollectorFailed(f"the ports under {self._sys_root} cannot be read: {error}") from error
        self._learn(reading)
        if not reading.links and not self._told_absence:
            log.info("no_network_adapters", sys_root=str(self._sys_root))
            self._told_absence = True
        return self._watch.judge(reading, now_s=self._clock.monotonic_s(), at=self._clock.now())

    async def close(self) -> None:
        """Nothing is held."""

    def _read(self, _given_up: threading.Event) -> NetworkReading:
        return read_network(self._sys_root)

    def _learn(self, reading: NetworkReading) -> None:
        names = Counter(link.device_id for link in {link.adapter: link for link in reading.links}.values())
        for link in reading.links:
            # A MAC address that several have is the bond's: it names none of them.
            if link.device_id and names[link.device_id] == 1:
                self._directory.learn(
                    DeviceIdentity(
                        kind=DeviceKind.NIC,
                        device_id=link.device_id,
                        pci_bus_id=link.pci_bus_id,
                        pci_vendor_data=link.pci_vendor_data,
                        name=link.adapter,
                    )
                )
