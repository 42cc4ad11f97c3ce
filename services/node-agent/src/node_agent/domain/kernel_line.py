"""Every line of the kernel log that concerns a training node, into a fact: which parser reads which line.

A line is read once, in linear time: fixed beginnings or needles first, then one anchored pattern. NEEDLES is the list
of texts without one of which no line means anything; whoever reads many lines looks for those first.
"""

from __future__ import annotations

from node_agent.domain.bus_line import BUS_SHAPES, parse_nic
from node_agent.domain.crash_line import CRASH_SHAPES
from node_agent.domain.gpu_line import GpuLines
from node_agent.domain.kernel_finding import LINE_CHARS_MAX, KernelFact, KernelFinding
from node_agent.domain.line_shape import read_shapes
from node_agent.domain.machine_line import MACHINE_SHAPES
from node_agent.domain.oom_line import OomLines
from node_agent.domain.storage_line import STORAGE_SHAPES
from node_agent.domain.sxid_line import parse_sxid
from node_agent.domain.xid_line import HEAD, parse_xid

NEEDLES = (
    "NVRM: ", "SXid (", "oom-kill:", "Killed process", " blocked ", "soft lockup", "hard LOCKUP", "rcu: INFO",
    "NMI received",
    "BUG: ", "kernel BUG at ", "Kernel panic", "[Hardware Error]", "EDAC MC", "Memory failure: ", "PCIe Bus Error",
    "Remounting filesystem", "-fs error", "XFS (", "I/O error", "nvme nvme", "nfs: server ", "LustreError: ",
    "segfault at ", "ink up", "ink down", "ink is ", "ink Up", "ink Down", "Port module event",
)  # fmt: skip


_SHAPES = MACHINE_SHAPES + BUS_SHAPES + STORAGE_SHAPES + CRASH_SHAPES


KNOWN_MAX = 256
"""Lines kept with their findings, 100 KB: a storm repeats few (29 of 800,000 in NVSentinel#1120)."""


class KernelLines:
    """Reads lines in their order; keeps the last address, the last OOM summary, and findings of a storm."""

    def __init__(self) -> None:
        self._known: dict[str, KernelFinding] = {}
        self._gpu = GpuLines()
        self._oom = OomLines()

    def read(self, line: str) -> KernelFact | None:
        """What a line says, or None. Characters over the limit are not looked at."""
        known = self._known.get(line)
        if known is not None:
            return known
        line = line[:LINE_CHARS_MAX]
        if line.startswith("NVRM: "):
            return self._xid(line) if line.startswith(HEAD) else self._gpu.read(line)
        if line.startswith("nvidia-nvswitch"):
            return parse_sxid(line)
        if "oom-kill:" in line or "Killed process" in line:
            return self._oom.read(line)
        found = read_shapes(line, _SHAPES)
        if found is None and ("ink " in line or "Port module event" in line):
            return parse_nic(line)
        return found

    def _xid(self, line: str) -> KernelFinding | None:
        """An Xid line says the same whatever came before it."""
        found = parse_xid(line)
        if found is not None:
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[line] = found
        return found
