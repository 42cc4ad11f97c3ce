"""Network ports as sysfs shows them: /sys/class/infiniband, /sys/class/net and the PCI bus.

Documentation/ABI/stable/sysfs-class-infiniband and testing/sysfs-class-net of the Linux kernel name the files. A file
that is not there, or that a port without a link refuses to read (EINVAL), is a value that is not told.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from node_agent.adapters.machine import read_text
from node_agent.domain.nic_reading import LinkKind, LinkReading, NetworkReading
from node_agent.domain.pci_address import pci_address

ADAPTERS_MAX = 256
"""A machine with thousands of virtual interfaces (containers) has few physical ones; those are all that is read."""
_ACTIVE, _LINK_UP = "4", "5"
"""`4: ACTIVE` of `state`, `5: LinkUp` of `phys_state` (sysfs-class-infiniband)."""
_RDMA_ERRORS = ("symbol_error", "port_rcv_errors", "local_link_integrity_errors", "link_error_recovery")
"""Of ports/N/counters: damage on the wire. What is dropped for want of room is congestion, not damage."""
_ETHERNET_ERRORS = ("rx_crc_errors", "rx_frame_errors", "tx_carrier_errors")
_ETHERNET_TYPE = "1"
"""ARPHRD_ETHER (linux/if_arp.h). IP over InfiniBand is another, and its port is read as an RDMA one."""
_IFF_UP = 0x1
_AMAZON = "0x1d0f"
_EFA_DEVICES = frozenset({"0xefa0", "0xefa1", "0xefa2", "0xefa3"})
"""drivers/infiniband/hw/efa/efa_main.c of the Linux kernel: PCI_DEV_ID_EFA0_VF to PCI_DEV_ID_EFA3_VF."""
_INFINIBAND_CLASS = "0x0207"
"""PCI class 02h subclass 07h, InfiniBand controller (PCI Code and ID Assignment Specification)."""
_RATE = re.compile(r"^([0-9.]+) Gb/sec")


def read_network(sys: Path) -> NetworkReading:
    """All physical ports of the machine. Blocks for as long as the drivers take."""
    links = (*_rdma_links(sys / "class/infiniband"), *_ethernet_links(sys / "class/net"))
    taken = {link.pci_bus_id for link in links if link.kind is LinkKind.RDMA}
    driverless = tuple(address for address in _rdma_addresses(sys / "bus/pci/devices") if address not in taken)
    return NetworkReading(links=links, driverless=driverless)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []  # nothing of the kind on this machine


def _rdma_links(folder: Path) -> Iterator[LinkReading]:
    for adapter in _entries(folder)[:ADAPTERS_MAX]:
        device = adapter / "device"
        guid = read_text(adapter / "node_guid") or ""
        for port in _entries(adapter / "ports"):
            state, physical = read_text(port / "state"), read_text(port / "phys_state")
            errors = {name: _number(port / "counters" / name) for name in _RDMA_ERRORS}
            yield LinkReading(
                kind=LinkKind.RDMA,
                name=f"{adapter.name}/{port.name}",
                adapter=adapter.name,
                device_id="" if not guid.strip("0:") else guid,
                pci_bus_id=_address(device),
                pci_vendor_data=_vendor_data(device),
                model=read_text(adapter / "hca_type") or _vendor_data(device),
                up=_is_up(state, physical),
                state=", ".join(filter(None, (state, physical))),
                gbps=_gbps(read_text(port / "rate")),
                downs=_number(port / "counters/link_downed"),
                errors={name: value for name, value in errors.items() if value is not None},
            )


def _is_up(state: str | None, physical: str | None) -> bool | None:
    if state is None:
        return None
    return state.startswith(_ACTIVE) and (physical is None or physical.startswith(_LINK_UP))


def _gbps(rate: str | None) -> float | None:
    found = _RATE.match(rate or "")
    return None if found is None else float(found.group(1))


def _ethernet_links(folder: Path) -> Iterator[LinkReading]:
    physical = (entry for entry in _entries(folder) if _is_physical(entry))
    for number, entry in enumerate(physical):
        if number >= ADAPTERS_MAX:
            return
        device = entry / "device"
        carrier, changes, speed = (
            read_text(entry / "carrier"),
            _number(entry / "carrier_changes"),
            read_text(entry / "speed"),
        )
        errors = {name: _number(entry / "statistics" / name) for name in _ETHERNET_ERRORS}
        yield LinkReading(
            kind=LinkKind.ETHERNET,
            name=entry.name,
            adapter=entry.name,
            # A slave of a bond shows the bond's address as its own.
            device_id=read_text(entry / "bonding_slave/perm_hwaddr") or read_text(entry / "address") or "",
            pci_bus_id=_address(device),
            pci_vendor_data=_vendor_data(device),
            model=_vendor_data(device),
            wanted=bool(int(read_text(entry / "flags") or "0", 16) & _IFF_UP),
            up=None if carrier not in ("0", "1") else carrier == "1",
            state=read_text(entry / "operstate") or "",
            gbps=int(speed) / 1_000 if speed is not None and speed.isdigit() else None,
            # Ups and downs together: an odd number is a link that is up for the first time, or again.
            downs=None if changes is None else changes // 2,
            errors={name: value for name, value in errors.items() if value is not None},
        )


def _is_physical(entry: Path) -> bool:
    """It has a device, is no virtual function, speaks Ethernet and is not wireless."""
    device = entry / "device"
    return (
        device.exists()
        and not (device / "physfn").exists()
        and not (entry / "wireless").exists()
        and read_text(entry / "type") == _ETHERNET_TYPE
    )


def _rdma_addresses(folder: Path) -> Iterator[str]:
    for entry in _entries(folder):
        code = read_text(entry / "class") or ""
        vendor, device = read_text(entry / "vendor"), read_text(entry / "device")
        if (entry / "physfn").exists():
            continue
        if code.startswith(_INFINIBAND_CLASS) or (vendor == _AMAZON and device in _EFA_DEVICES):
            yield pci_address(entry.name) or entry.name


def _address(device: Path) -> str:
    try:
        return pci_address(os.path.basename(os.readlink(device))) or ""
    except OSError:
        return ""  # a driver without a PCI device (a virtual machine's own bus)


def _vendor_data(device: Path) -> str:
    words = [read_text(device / name) for name in ("vendor", "device", "subsystem_vendor", "subsystem_device")]
    return "" if None in words else ":".join(word.removeprefix("0x") for word in words if word)


def _number(path: Path) -> int | None:
    text = read_text(path)
    return int(text) if text is not None and text.isdigit() else None
