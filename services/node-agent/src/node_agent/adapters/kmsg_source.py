"""The kernel log as an event source of the host role: the one call that its wiring needs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from node_agent.adapters.kmsg_reader import DEVICE, KmsgReader
from node_agent.adapters.process_owners import ProcOwners
from node_agent.application.collector_ports import DeviceDirectory, EventSource
from node_agent.application.watch_kernel_log import KernelLogWatch
from service_kit.ports import Clock


def kmsg_source(
    directory: DeviceDirectory,
    clock: Clock,
    *,
    path: Path = DEVICE,
    proc_root: Path = Path("/proc"),
    driver_version: Callable[[], str],
    same_pids: bool | None = None,
) -> EventSource:
    """`driver_version`: of the NVIDIA driver, or empty; it decides how NVLink 5 errors are decoded.

    `same_pids`: whether pids of the log are this process's view of them; None: found out.
    """
    return KernelLogWatch(
        KmsgReader(clock, path),
        directory,
        ProcOwners(clock, proc_root=proc_root, same_pids=same_pids),
        clock,
        driver_version=driver_version,
    )
