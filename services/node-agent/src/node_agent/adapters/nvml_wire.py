"""What the child says, as values: frames of nvml_child.py in, readings out. What is malformed is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fault_contracts.inventory import DeviceIdentity, DeviceKind
from node_agent.domain.gpu_reading import GpuReading
from node_agent.domain.pci_address import pci_address


class MalformedAnswer(Exception):
    """The child said what nobody expects of it; the text names the place."""


def gpu_reading(said: Mapping[str, Any]) -> GpuReading:
    """One GPU.

    Raises:
        MalformedAnswer: a part is missing or of another kind.
    """
    identity = {name: str(text) for name, text in _table(said, "identity").items()}
    lost = said.get("lost")
    return GpuReading(
        index=_whole(said.get("index"), "index"),
        pci_bus_id=pci_address(identity.get("pci_bus_id", "")) or "",
        uuid=identity.get("uuid", ""),
        identity=identity,
        numbers={name: _whole(value, name) for name, value in _table(said, "numbers").items()},
        by_link={
            name: tuple(_whole(value, name) for value in _list(values, name))
            for name, values in _table(said, "by_link").items()
        },
        slices=tuple(str(name) for name in _list(said.get("slices", []), "slices")),
        pids=tuple(_whole(pid, "pids") for pid in _list(said.get("pids", []), "pids")),
        errors={name: _whole(code, name) for name, code in _table(said, "errors").items()},
        lost=None if lost is None else _whole(lost, "lost"),
    )


def identity_of(gpu: GpuReading) -> DeviceIdentity | None:
    """For the directory; None when the GPU could not say who it is."""
    if not gpu.uuid:
        return None
    minor = gpu.identity.get("minor", "")
    return DeviceIdentity(
        kind=DeviceKind.GPU,
        device_id=gpu.uuid,
        board_serial=gpu.identity.get("serial", ""),
        board_part_number=gpu.identity.get("board_part_number", ""),
        pci_vendor_data=gpu.identity.get("pci_vendor_data", ""),
        pci_bus_id=gpu.pci_bus_id,
        index=gpu.index,
        minor=int(minor) if minor.isdecimal() else None,
        name=gpu.identity.get("name", ""),
    )


def _table(said: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = said.get(name, {})
    if not isinstance(value, dict):
        raise MalformedAnswer(f"{name} is a {type(value).__name__}, not a table")
    return value


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise MalformedAnswer(f"{name} is a {type(value).__name__}, not a list")
    return value


def _whole(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise MalformedAnswer(f"{name} is {value!r}, not a whole number")
    return value
