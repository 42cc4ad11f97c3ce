"""What identifies the machine and its boot: /proc and /sys. What cannot be read is empty, never made up."""

from __future__ import annotations

import re
from pathlib import Path

FILE_BYTES_MAX = 65_536
"""Files of /proc and /sys that are read here are a line or a page."""
_DRIVER = re.compile(r"Kernel Module\s+(?:for \S+\s+)?([0-9][0-9.]+)")


def read_text(path: Path) -> str | None:
    """A small file as text without outer blanks; None when it is not there or not for us."""
    try:
        with path.open("rb") as file:
            return file.read(FILE_BYTES_MAX).decode("utf-8", errors="replace").strip()
    except OSError:
        return None  # absent, no permission, or a port that is down (EINVAL): the caller says what that means


def boot_id(proc: Path) -> str:
    """Changes with every boot (random(4), /proc/sys/kernel/random/boot_id)."""
    return read_text(proc / "sys/kernel/random/boot_id") or ""


def uptime_s(proc: Path) -> float | None:
    """Seconds since the boot (proc_uptime(5))."""
    words = (read_text(proc / "uptime") or "").split()
    try:
        return float(words[0]) if words else None
    except ValueError:
        return None


def machine_serial(sys: Path) -> str:
    """Of the chassis, by the firmware; for root only."""
    return (read_text(sys / "class/dmi/id/product_serial") or "")[:256]


def nvidia_driver_version(proc: Path) -> str:
    """Of the loaded kernel module, proprietary or open (`NVRM version: NVIDIA UNIX ... Kernel Module  570.124.06`)."""
    found = _DRIVER.search(read_text(proc / "driver/nvidia/version") or "")
    return "" if found is None else found.group(1)
