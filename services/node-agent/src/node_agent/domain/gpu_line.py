"""Other lines of the NVIDIA driver: which GPU sits where, and a GPU that fell off the bus without any Xid.

The driver tells some things over several lines, so the reader remembers the last address that it named.
"""

from __future__ import annotations

import re

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain.kernel_finding import GpuNamed, KernelFact, KernelFinding
from node_agent.domain.pci_address import pci_address

OFF_BUS_CHECK = "xid_79"
"""The same fault as Xid 79, told by lines that may come without it; one check, so that it is one condition."""

_PCI = r"(?:PCI:)?(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)"
_NAMED = re.compile(rf"NVRM: GPU at {_PCI}: (?P<uuid>GPU-[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})\s*")
_BOARD = re.compile(r"NVRM: GPU Board Serial Number: (?P<serial>\w{1,32})\s*")
_OFF_BUS = re.compile(rf"NVRM: GPU {_PCI}: GPU has fallen off the bus\.?\s*")
_SERIAL_IS = re.compile(rf"NVRM: GPU {_PCI}: GPU serial number is (?P<serial>\w{{1,32}})\.?\s*")
_THE_GPU = re.compile(rf"NVRM: The NVIDIA GPU {_PCI}\s*")
_NOT_RESPONDING = re.compile(r"NVRM: fallen off the bus and is not responding to commands\.?\s*")
_INIT_FAILED = re.compile(rf"NVRM: GPU {_PCI}: RmInitAdapter failed! (?P<codes>\([0-9a-fx:]{{1,40}}\))\s*")


class GpuLines:
    """Reads the lines in their order."""

    def __init__(self) -> None:
        self._named_at = ""
        self._told_at = ""

    def read(self, line: str) -> KernelFact | None:
        """What a line says; None when it says nothing, or nothing yet."""
        if found := _NAMED.fullmatch(line):
            self._named_at = _address(found)
            return GpuNamed(pci_bus_id=self._named_at, gpu_uuid=found["uuid"])
        if found := _BOARD.fullmatch(line):
            # The line has no address: it follows the GPU's own.
            named_at, self._named_at = self._named_at, ""
            return GpuNamed(pci_bus_id=named_at, board_serial=found["serial"]) if named_at else None
        if found := _SERIAL_IS.fullmatch(line):
            return GpuNamed(pci_bus_id=_address(found), board_serial=found["serial"])
        if found := _OFF_BUS.fullmatch(line):
            return _off_bus(_address(found))
        if found := _THE_GPU.fullmatch(line):
            self._told_at = _address(found)
            return None
        if _NOT_RESPONDING.fullmatch(line):
            told_at, self._told_at = self._told_at, ""
            return _off_bus(told_at)
        if found := _INIT_FAILED.fullmatch(line):
            return _init_failed(_address(found), found["codes"])
        return None


def _address(found: re.Match[str]) -> str:
    return pci_address(found["pci"]) or ""


def _off_bus(pci: str) -> KernelFinding:
    where = pci or "an address that the driver did not name"
    return KernelFinding(
        component=Component.GPU,
        device=pci,
        check=OFF_BUS_CHECK,
        health=Health.BAD,
        sentence=f"the GPU at {where} has fallen off the bus",
        attributes={"xid": "79", "witness": "companion_line"} | ({"pci_bus_id": pci} if pci else {}),
        location="companion",
    )


def _init_failed(pci: str, codes: str) -> KernelFinding:
    return KernelFinding(
        component=Component.GPU,
        device=pci,
        check="gpu_init_failed",
        health=Health.BAD,
        sentence=f"the driver could not initialise the GPU at {pci} {codes}",
        attributes={"pci_bus_id": pci, "codes": codes},
    )
