"""Which devices this machine shows, without asking the driver's library: sysfs and proc, in a thread with a deadline.

A driver that is stuck can block even these reads; the deadline makes that unknown instead of a hang.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from fault_contracts.payload import Health
from node_agent.adapters.daemon_calls import DaemonCalls
from node_agent.domain.pci_address import pci_address
from node_agent.domain.validation_result import CheckResult
from node_agent.domain.validation_topology import ExpectedDevices, SeenDevices, compare
from service_kit.logging import get_logger

log = get_logger(__name__)

NVIDIA = "0x10de"
"""PCI vendor (pci.ids)."""
GPU_CLASSES = ("0x0300", "0x0302")
"""VGA and 3D controller (PCI Code and ID Assignment Specification 1.11, section 1.4)."""
EXPECT_BYTES_MAX = 1 << 20
_UUID = re.compile(r"^GPU UUID:\s+(GPU-[0-9a-fA-F-]+)", re.MULTILINE)


class DevicesCheck:
    """application.validation_ports.LocalCheck. Roots of sysfs and proc are other folders in tests."""

    def __init__(self, expected: ExpectedDevices, *, sys_root: Path, proc_root: Path, limit_s: float) -> None:
        self._expected = expected
        self._sys = sys_root
        self._proc = proc_root
        self._limit_s = limit_s
        self._calls = DaemonCalls(name="devices of the machine", limit=1)

    async def run(self) -> Sequence[CheckResult]:
        """Look, compare."""
        try:
            seen = await self._calls.run(partial(_seen, self._sys, self._proc), limit_s=self._limit_s)
        except (TimeoutError, OSError) as error:
            why = str(error) or f"not readable within {self._limit_s:g} s; the driver may be stuck"
            rule = "validation.devices_unreadable"
            return [CheckResult(check="devices", health=Health.UNKNOWN, rule_id=rule, sentence=why)]
        return compare(seen, self._expected)


async def served_gpus(proc_root: Path, *, limit_s: float) -> dict[str, str]:
    """GPUs that the driver serves, address to uuid; empty when it cannot be told in time."""
    calls = DaemonCalls(name="names of the GPUs", limit=1)
    try:
        return await calls.run(lambda _given_up: _served(proc_root), limit_s=limit_s)
    except (TimeoutError, OSError) as error:
        log.warning("gpus_unreadable", error=str(error) or f"no answer within {limit_s:g} s")
        return {}


def _seen(sys_root: Path, proc_root: Path, _given_up: threading.Event) -> SeenDevices:
    has_driver = (proc_root / "driver/nvidia").is_dir()
    served = _served(proc_root)
    infiniband = sys_root / "class/infiniband"
    return SeenDevices(
        gpu_pci=frozenset(_gpus_on_the_bus(sys_root / "bus/pci/devices")),
        driver_pci=frozenset(served) if has_driver else None,
        gpu_uuids=frozenset(served.values()) - {""},
        nics=frozenset(path.name for path in infiniband.iterdir()) if infiniband.is_dir() else frozenset(),
    )


def _gpus_on_the_bus(folder: Path) -> list[str]:
    found = []
    for device in folder.iterdir() if folder.is_dir() else ():
        if _text(device / "vendor") != NVIDIA or not _text(device / "class").startswith(GPU_CLASSES):
            continue
        if (device / "physfn").exists():
            continue  # a virtual function of a GPU that is counted already
        address = pci_address(device.name)
        if address is not None:
            found.append(address)
    return found


def _served(proc_root: Path) -> dict[str, str]:
    """Address to uuid; empty where the driver gives none."""
    served = {}
    folder = proc_root / "driver/nvidia/gpus"
    for gpu in folder.iterdir() if folder.is_dir() else ():
        address = pci_address(gpu.name)
        found = _UUID.search(_text(gpu / "information"))
        if address is not None:
            served[address] = found.group(1) if found else ""
    return served


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(65_536).decode(errors="replace").strip()
    except OSError:
        return ""  # a device that goes away while it is looked at is as good as gone


def read_expected(path: Path) -> ExpectedDevices:
    """A JSON object with any of gpus, nics (numbers), gpu_pci, gpu_uuids (lists).

    Raises:
        ValueError: what is wrong, for the user.
        OSError: it cannot be read.
    """
    raw = path.read_bytes()[: EXPECT_BYTES_MAX + 1]
    if len(raw) > EXPECT_BYTES_MAX:
        raise ValueError(f"{path}: larger than {EXPECT_BYTES_MAX} bytes")
    told = json.loads(raw)
    known = {"gpus", "nics", "gpu_pci", "gpu_uuids"}
    if not isinstance(told, dict) or set(told) - known:
        raise ValueError(f"{path}: an object with {', '.join(sorted(known))} is expected")
    addresses = {text: pci_address(str(text)) for text in told.get("gpu_pci", [])}
    wrong = [text for text, address in addresses.items() if address is None]
    if wrong:
        raise ValueError(f"{path}: gpu_pci {wrong[0]!r} is no PCI address")
    for name in ("gpus", "nics"):
        if told.get(name) is not None and (not isinstance(told[name], int) or told[name] < 0):
            raise ValueError(f"{path}: {name} must be a number")
    return ExpectedDevices(
        gpus=told.get("gpus"),
        nics=told.get("nics"),
        gpu_pci=frozenset(address for address in addresses.values() if address),
        gpu_uuids=frozenset(str(uuid) for uuid in told.get("gpu_uuids", [])),
    )
