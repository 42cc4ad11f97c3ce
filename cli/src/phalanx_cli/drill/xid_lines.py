"""Xid lines in the shapes that the driver prints, with the lines that go before and after them.

Shapes: the open kernel modules' sources (R515 to R595); a line of R570 and later leaves the process out when there is
none. Codes whose text is not known here get one that says that it is a drill: a parser must not depend on it anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

MESSAGES = {
    13: "Graphics SM Warp Exception on (GPC 1, TPC 3, SM 0): Out Of Range Address",
    31: (
        "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_3 faulted @ 0x7f2a_10000000. "
        "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"
    ),
    32: "Channel ID 0000000d intr0 00040000",
    43: "Ch 00000010",
    45: "Ch 00000011",
    48: "DBE (double bit error) ECC Error at partition 3, subpartition 0",
    63: "Row Remapper: New row marked for remapping, reset gpu to activate.",
    64: "Row remapping failure",
    74: "NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
    79: "GPU has fallen off the bus.",
    94: "Contained: CE User Channel (0x9). RST: No, D-RST: No",
    95: "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    119: (
        "Timeout after 6s of waiting for RPC response from GPU1 GSP! Expected function 76 (GSP_RM_CONTROL) "
        "(0x20802a02 0x0)."
    ),
    120: "GSP task exception: misaligned_access (cause:0x4) @ pc:0x1b5a3e6, partition:0x2 task:1",
    140: "An uncorrectable ECC error detected (possible firmware handling failure) DRAM:1, LTC:0, MMU:0, PCIE:0",
    145: "RLW_REMAP Nonfatal XC1 i0 Link -1 (0x00000004 0x00000001 0x00000000 0x00000000 0x00000000 0x00000000)",
    149: "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)",
}
RECOVERY_WORDS = {
    0: "None",
    1: "GPU Reset Required",
    2: "Node Reboot Required",
    3: "Drain P2P",
    4: "Drain and Reset",
}
"""As Xid 154 prints them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """The GPU that a drill breaks.

    Attributes:
        pci_bus_id: dddd:bb:dd, as the kernel log writes it.
    """

    index: int
    pci_bus_id: str
    uuid: str
    serial: str


def xid_lines(gpu: Gpu, code: int, *, message: str = "", pid: int | None = None, process: str = "") -> list[str]:
    """The lines of one Xid: who the GPU is, the Xid, and what follows it."""
    process_words = "" if pid is None else f"pid={pid}, name={process or '<unknown>'}, "
    text = message or MESSAGES.get(code, "injected by a drill")
    lines = [
        f"NVRM: GPU at PCI:{gpu.pci_bus_id}: {gpu.uuid}",
        f"NVRM: GPU Board Serial Number: {gpu.serial}",
        f"NVRM: Xid (PCI:{gpu.pci_bus_id}): {code}, {process_words}{text}",
    ]
    if code == 79:
        lines += [
            f"NVRM: GPU {gpu.pci_bus_id}.0: GPU has fallen off the bus.",
            f"NVRM: GPU {gpu.pci_bus_id}.0: GPU serial number is {gpu.serial}.",
        ]
    return lines


def recovery_line(gpu: Gpu, before: int, after: int) -> str:
    """Xid 154: the driver's wish changes."""
    words = [f"{value:#x} ({RECOVERY_WORDS.get(value, 'Unknown')})" for value in (before, after)]
    return f"NVRM: Xid (PCI:{gpu.pci_bus_id}): 154, GPU recovery action changed from {words[0]} to {words[1]}"


def sxid_line(code: int, *, switch: int = 0, message: str = "") -> str:
    """An error of an NVSwitch."""
    text = message or "Fatal, Link 30 LTSSM Fault Up"
    return f"nvidia-nvswitch{switch}: SXid (PCI:0000:{0xC1 + switch:02x}:00.0): {code:05d}, {text}"
