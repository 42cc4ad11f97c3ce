"""Which devices a node has, by what stays with them when they move. Key: node_id."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from fault_contracts.payload import At, Name, Payload


class DeviceKind(StrEnum):
    """What a device is. Open: an unknown member reads as `other`."""

    GPU = "gpu"
    NIC = "nic"
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> DeviceKind | None:
        return cls.OTHER if isinstance(value, str) else None


class DeviceIdentity(Payload):
    """One device. What is not known is empty; an empty value identifies nothing."""

    kind: DeviceKind
    device_id: Name
    """gpu_uuid of a GPU, GUID or MAC address of a NIC: the device's immutable name."""
    board_serial: str = Field(default="", max_length=256)
    board_part_number: str = Field(default="", max_length=256)
    pci_vendor_data: str = Field(default="", max_length=64)
    """vendor:device:subsystem-vendor:subsystem-device in hex, e.g. 10de:2330:10de:16c1."""
    pci_bus_id: str = Field(default="", max_length=64)
    """Where it sits now: dddd:bb:dd in lower case, as the kernel log writes it."""
    index: int | None = Field(default=None, ge=0)
    """NVML's index now; it shifts when a device is lost."""
    minor: int | None = Field(default=None, ge=0)
    name: str = Field(default="", max_length=256)
    """Model, or interface name."""


class InventoryReported(Payload):
    """What is in the node: sent at the host role's start and whenever it changes."""

    node_id: Name
    instance_id: Name
    host: str = Field(default="", max_length=256)
    boot_id: str = Field(default="", max_length=64)
    machine_serial: str = Field(default="", max_length=256)
    driver_version: str = Field(default="", max_length=64)
    gpus_expected: int | None = Field(default=None, ge=0)
    """Set by the operator; None: what was seen first is what is expected."""
    devices: tuple[DeviceIdentity, ...] = Field(default=(), max_length=256)
    reported_at: At
