"""NVIDIA GPUs on the PCI bus, from sysfs: what should be there, whatever the driver says."""

from __future__ import annotations

from pathlib import Path

from node_agent.domain.pci_address import pci_address

PCI_DEVICES = Path("/sys/bus/pci/devices")
NVIDIA = "0x10de"
GPU_CLASSES = ("0x0300", "0x0302")
"""VGA compatible and 3D controllers (PCI Code and ID Assignment Specification, class 03h)."""
NOT_FOR_US = "vfio-pci"
"""Given to a virtual machine: the driver of this machine must not have it."""


def gpus_on_bus(devices: Path = PCI_DEVICES) -> tuple[str, ...] | None:
    """Addresses in our spelling, sorted; None when sysfs cannot be read, and nothing is known."""
    try:
        entries = sorted(devices.iterdir())
    except OSError:
        return None
    found = []
    for entry in entries:
        try:
            vendor, kind = (entry / "vendor").read_text().strip(), (entry / "class").read_text().strip()
            if vendor != NVIDIA or not kind.startswith(GPU_CLASSES) or _driver(entry) == NOT_FOR_US:
                continue
        except OSError:
            continue  # taken out between the listing and the look: it is not there
        address = pci_address(entry.name)
        if address is not None:
            found.append(address)
    return tuple(dict.fromkeys(found))


def _driver(entry: Path) -> str:
    link = entry / "driver"
    return link.readlink().name if link.is_symlink() else ""
