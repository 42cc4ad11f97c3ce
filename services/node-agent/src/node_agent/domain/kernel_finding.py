"""What one line of the kernel log says, before it is known which device and which job it concerns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fault_contracts.health import Component
from fault_contracts.payload import Health

LINE_CHARS_MAX = 2_048
"""PRINTK_MESSAGE_MAX of the kernel (kernel/printk/internal.h, 6.x); older kernels print 1,024 at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFinding:
    """One line that means something.

    Attributes:
        device: PCI address (dddd:bb:dd), interface, disk or mount that the line names; empty: the machine itself.
        check: slug, e.g. xid_79.
        sentence: for people.
        attributes: what names the place of the fault.
        pid: process that the line names, in the pid namespace of the host; None: none.
        location: part of the device; lines of the same device, check and location are folded.
    """

    component: Component
    device: str = ""
    check: str
    health: Health
    sentence: str
    attributes: Mapping[str, str] = field(default_factory=dict)
    pid: int | None = None
    location: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNamed:
    """The driver tells once for each GPU, before its first Xid, which GPU sits at an address."""

    pci_bus_id: str
    gpu_uuid: str = ""
    board_serial: str = ""


KernelFact = KernelFinding | GpuNamed
