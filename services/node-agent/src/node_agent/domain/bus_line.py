"""Lines of the kernel about PCIe errors and network adapters.

Each shape names the kernel source that prints it. Link messages: mlx5_core, ice, bnxt_en, i40e and the like.
"""

from __future__ import annotations

import re

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.domain.kernel_finding import KernelFinding
from node_agent.domain.line_shape import LineShape
from node_agent.domain.pci_address import pci_address

NIC_DRIVERS = frozenset(
    {
        "mlx5_core",
        "mlx4_core",
        "mlx4_en",
        "ena",
        "efa",
        "ice",
        "i40e",
        "ixgbe",
        "irdma",
        "bnxt_en",
        "bnxt_re",
        "idpf",
        "gve",
    }
)
"""Adapters of GPU machines: Mellanox/NVIDIA, AWS, Intel, Broadcom, Google."""
_LINK = re.compile(
    r"(?P<driver>\w{2,12}) (?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?: (?P<name>[^\s:]{1,20}))?:? .{0,80}?"
    r"\b[Ll]ink (?:is )?(?P<state>[Uu]p|[Dd]own)\b"
)
_CABLE = re.compile(
    r"(?P<driver>mlx5_core) (?P<pci>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])(?: (?P<name>[^\s:]{1,20}))?: "
    r".{0,60}?Port module event(?:\[error\])?: module (?P<module>\d{1,3}), "
    r"(?P<what>Cable (?:error|unplugged|plugged)[^.]{0,120})"
)


def parse_nic(line: str) -> KernelFinding | None:
    """Links that go up and down, and cables."""
    found = _LINK.match(line)
    if found is not None and found["driver"] in NIC_DRIVERS:
        return _nic(found, "nic_link_event", up=found["state"].lower() == "up", what=f"link {found['state'].lower()}")
    found = _CABLE.match(line)
    if found is None:
        return None
    return _nic(found, "nic_cable", up=found["what"].startswith("Cable plugged"), what=found["what"].strip())


def _nic(found: re.Match[str], check: str, *, up: bool, what: str) -> KernelFinding:
    pci = pci_address(found["pci"]) or found["pci"]
    name = found["name"] or ""
    return KernelFinding(
        component=Component.NIC,
        device=pci,
        check=check,
        health=Health.OK if up else Health.BAD,
        sentence=f"{found['driver']} at {pci}{f' ({name})' if name else ''}: {what}",
        attributes={"pci_bus_id": pci, "driver": found["driver"]} | ({"interface": name} if name else {}),
        # Of one slot, each port is a thing of its own.
        location=found["pci"],
    )


def _pcie_aer(found: re.Match[str]) -> KernelFinding | None:
    pci = pci_address(found["pci"])
    if pci is None:
        return None
    severity = found["severity"].lower()
    corrected = severity.startswith("correct")
    component = {"nvidia": Component.GPU}.get(found["driver"], Component.HOST)
    if found["driver"] in NIC_DRIVERS:
        component = Component.NIC
    return KernelFinding(
        component=component,
        device=pci,
        check="pcie_aer_corrected" if corrected else "pcie_aer",
        health=Health.BAD,
        sentence=f"PCIe error at {pci} ({found['driver']}): severity {found['severity']}, type {found['type'].strip()}",
        attributes={"pci_bus_id": pci, "driver": found["driver"], "severity": severity, "type": found["type"].strip()},
        location=f"{severity}/{found['type'].strip()}",
    )


BUS_SHAPES: tuple[LineShape, ...] = (
    # drivers/pci/pcie/aer.c
    LineShape(
        "PCIe Bus Error",
        re.compile(
            r"(?P<driver>[\w-]{1,20}) (?P<pci>[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]): (?:AER: )?PCIe Bus Error: "
            r"severity=(?P<severity>[A-Za-z -]{1,20}(?: \([A-Za-z-]{1,12}\))?), type=(?P<type>[A-Za-z ]{1,40})"
        ),
        _pcie_aer,
    ),
)
