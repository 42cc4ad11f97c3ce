"""Which devices the machine has, put together from what several witnesses know of each.

The kernel log knows address and uuid of a GPU, NVML all of it, sysfs the NICs. A device is known by its immutable name;
an address belongs to the device that was last seen there, so that a replaced GPU does not inherit its forerunner's.
"""

from __future__ import annotations

from collections.abc import Sequence

from fault_contracts.inventory import DeviceIdentity, DeviceKind
from node_agent.domain.pci_address import pci_address

DEVICES_MAX = 256
"""As many as InventoryReported carries: sixteen GPUs and as many NICs with all their ports are a tenth of it."""
_TEXTS = ("board_serial", "board_part_number", "pci_vendor_data", "pci_bus_id", "name")
_NUMBERS = ("index", "minor")


class Directory:
    """Devices by name and by address. `version` grows with each change, so that who reports them knows when."""

    def __init__(self) -> None:
        self._devices: dict[tuple[DeviceKind, str], DeviceIdentity] = {}
        self._by_pci: dict[str, tuple[DeviceKind, str]] = {}
        self.version = 0
        self.left_out = 0
        """Devices that did not fit."""

    def learn(self, device: DeviceIdentity) -> None:
        """Take in what is known of a device; empty fields do not erase known ones."""
        key = (device.kind, device.device_id)
        known = self._devices.get(key)
        if known is None and len(self._devices) >= DEVICES_MAX:
            self.left_out += 1
            return
        address = pci_address(device.pci_bus_id) or ""
        merged = _merged(known, device.model_copy(update={"pci_bus_id": address}))
        if merged == known:
            return
        self._devices[key] = merged
        self.version += 1
        if known is not None and known.pci_bus_id != merged.pci_bus_id:
            self._by_pci.pop(known.pci_bus_id, None)
        if merged.pci_bus_id:
            self._take_address(key, merged.pci_bus_id)

    def at_pci(self, pci_bus_id: str) -> DeviceIdentity | None:
        """By address in any of its spellings (`0000:3b:00`, `00000000:3B:00.0`)."""
        address = pci_address(pci_bus_id)
        key = self._by_pci.get(address) if address is not None else None
        return self._devices[key] if key is not None else None

    def all(self) -> Sequence[DeviceIdentity]:
        """Everything known, GPUs first, in the order of their addresses."""
        return sorted(
            self._devices.values(), key=lambda device: (device.kind.value, device.pci_bus_id, device.device_id)
        )

    def _take_address(self, key: tuple[DeviceKind, str], address: str) -> None:
        """A GPU that was known at this address before is no longer there. Ports of a NIC share theirs."""
        before = self._by_pci.get(address)
        if before is not None and before != key:
            if before[0] is not DeviceKind.GPU:
                return
            del self._devices[before]
        self._by_pci[address] = key


def _merged(known: DeviceIdentity | None, news: DeviceIdentity) -> DeviceIdentity:
    if known is None:
        return news
    changes: dict[str, object] = {name: getattr(news, name) for name in _TEXTS if getattr(news, name)}
    changes.update({name: getattr(news, name) for name in _NUMBERS if getattr(news, name) is not None})
    return known.model_copy(update=changes)
