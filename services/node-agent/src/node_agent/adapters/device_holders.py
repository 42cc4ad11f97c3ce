"""application.node_action_ports.DeviceHolders from /proc/PID/fd: who has /dev/nvidiaN open.

True only for a process that may look into all others. One that may not says so instead of saying that nobody is there.
Processes of other PID namespaces are seen from the machine's own (hostPID in a pod).
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from fault_contracts.inventory import DeviceIdentity
from node_agent.adapters.daemon_calls import DaemonCalls
from node_agent.application.node_action_ports import Holder
from node_agent.domain.pci_address import pci_address

FDS_LOOKED_AT_MAX = 65_536
"""Of one process; the kernel's default limit (fs.nr_open) is 1,048,576, and a training process has some thousand."""
LOOK_S = 30.0
"""A scan takes about 10 us a descriptor."""
_MINOR = re.compile(r"^Device Minor:\s+(\d+)", re.MULTILINE)


class ProcHolders:
    """Scans in a thread, with a deadline: a process in a stuck driver can block who looks at it."""

    def __init__(self, *, proc_root: Path, dev_root: Path) -> None:
        self._proc = proc_root
        self._dev = dev_root
        self._calls = DaemonCalls(name="holders of a GPU", limit=2)

    async def of(self, device: DeviceIdentity) -> Sequence[Holder]:
        """See the port."""
        try:
            return await self._calls.run(partial(self._scan, device), limit_s=LOOK_S)
        except TimeoutError as error:
            raise OSError(f"/proc could not be read within {LOOK_S:g} s; the driver may be stuck") from error

    def _scan(self, device: DeviceIdentity, given_up: threading.Event) -> list[Holder]:
        minor = device.minor if device.minor is not None else self._minor(device.pci_bus_id)
        node = str(self._dev / f"nvidia{minor}")
        found, hidden = [], 0
        for folder in self._proc.iterdir():
            if not folder.name.isdigit() or given_up.is_set():
                continue
            try:
                if _has_open(folder / "fd", node):
                    found.append(Holder(pid=int(folder.name), name=_name(folder)))
            except PermissionError:
                hidden += 1
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended while it was looked at
        if hidden:
            raise OSError(f"{hidden} processes may not be looked at by this user; run the host role as root")
        return found

    def _minor(self, pci_bus_id: str) -> int:
        """Number of the device file, as the driver tells it (/proc/driver/nvidia/gpus/PCI/information)."""
        folder = self._proc / "driver/nvidia/gpus"
        for gpu in folder.iterdir() if folder.is_dir() else ():
            if pci_address(gpu.name) == pci_bus_id:
                found = _MINOR.search((gpu / "information").read_text(errors="replace"))
                if found:
                    return int(found.group(1))
        raise OSError(f"the driver does not say which /dev/nvidiaN is the GPU at {pci_bus_id}")


def _has_open(folder: Path, node: str) -> bool:
    for number, name in enumerate(os.listdir(folder)):
        if number >= FDS_LOOKED_AT_MAX:
            raise OSError(f"{folder} has more than {FDS_LOOKED_AT_MAX} entries")
        try:
            if os.readlink(folder / name) == node:
                return True
        except FileNotFoundError:
            continue  # closed while it was looked at
    return False


def _name(folder: Path) -> str:
    try:
        return (folder / "comm").read_text(errors="replace").strip()
    except OSError:
        return "unknown"  # it ended; that it was there is what counts
