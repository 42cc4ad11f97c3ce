"""One look at one network port, as the kernel shows it; nothing judged yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class LinkKind(StrEnum):
    """What kind of port it is."""

    RDMA = "rdma"
    """InfiniBand, RoCE or EFA: a port under /sys/class/infiniband."""
    ETHERNET = "ethernet"
    """A physical interface under /sys/class/net."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkReading:
    """One port.

    Attributes:
        name: `mlx5_0/1`, `eth0`.
        adapter: what it is a port of: `mlx5_0`; an Ethernet interface is its own.
        device_id: GUID of an RDMA adapter, MAC address of an Ethernet one; empty: not told.
        pci_bus_id: dddd:bb:dd; empty: not told.
        model: equal for ports that must be equally fast.
        wanted: somebody switched it on (IFF_UP); RDMA ports are always wanted.
        up: a link is there; None: not told.
        state: the kernel's words for it.
        gbps: rate of the link; None: not told, or none.
        downs: how often the link went down since the driver was loaded; None: not counted.
        errors: counters of damaged symbols and packets since the driver was loaded.
    """

    kind: LinkKind
    name: str
    adapter: str
    device_id: str = ""
    pci_bus_id: str = ""
    pci_vendor_data: str = ""
    model: str = ""
    wanted: bool = True
    up: bool | None = None
    state: str = ""
    gbps: float | None = None
    downs: int | None = None
    errors: Mapping[str, int] = field(default_factory=dict)

    @property
    def component_id(self) -> str:
        """An RDMA port by its adapter's GUID, which stays; an Ethernet one by name: slaves of a bond share a MAC."""
        if self.kind is LinkKind.ETHERNET or not self.device_id:
            return self.name
        port = self.name.rpartition("/")[2]
        return self.device_id if port in ("", "1") else f"{self.device_id}/{port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkReading:
    """All ports, and RDMA adapters on the PCI bus that no driver has taken (their addresses)."""

    links: tuple[LinkReading, ...] = ()
    driverless: tuple[str, ...] = ()
