"""Lines of the kernel about a process that crashed inside a library of NVIDIA."""

from __future__ import annotations

import re

from node_agent.domain.kernel_finding import KernelFinding
from node_agent.domain.line_shape import LineShape, host_finding

GPU_LIBRARIES = ("libnccl", "libcuda", "libcudart", "libnvidia", "libcublas", "libcudnn", "libnvrtc")
"""Crashes in these are told: gpud and EKS's node monitoring agent watch libnccl (NvidiaNCCLError); the others are what
NCCL and torch call."""


def _segfault(found: re.Match[str]) -> KernelFinding | None:
    library = found["library"]
    if not library.startswith(GPU_LIBRARIES):
        return None
    sentence = f"process {found['pid']} ({found['process']}) crashed in {library} (segmentation fault)"
    return host_finding(
        "lib_segfault", sentence, pid=found["pid"], process=found["process"], library=library,
        location=f"{library}/{found['pid']}",
    )  # fmt: skip


CRASH_SHAPES: tuple[LineShape, ...] = (
    # arch/x86/mm/fault.c
    LineShape(
        "segfault at",
        re.compile(
            r"(?P<process>.{1,40})\[(?P<pid>\d{1,10})\]: segfault at [0-9a-f]{1,16} "
            r".{0,120} in (?P<library>[^\[\s]{1,120})\["
        ),
        _segfault,
    ),
)
