"""The collector `host`: file systems, mounts, blocked processes, clock, memory pressure, services of the GPU driver."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from node_agent.adapters import machine_proc
from node_agent.adapters.daemon_calls import DaemonCalls
from node_agent.application.collector_ports import CollectorFailed
from node_agent.domain.machine_health import MachinePolicy, MachineWatch
from node_agent.domain.machine_reading import DiskReading, MachineReading
from node_agent.domain.observation import Observation
from service_kit.ports import Clock

DISK_LIMIT_S = 3.0
"""A local file system answers in microseconds, a network one whose server is away not at all."""
PROC_LIMIT_S = 5.0
HANGING_MAX = 8
"""Questions to file systems that hang; further ones are unknown until one comes back."""


class MachineCollector:
    """application.collector_ports.Collector. Each file system is asked on a thread of its own."""

    name = "host"
    deadline_s = DISK_LIMIT_S + PROC_LIMIT_S + 1.0

    def __init__(
        self,
        *,
        sys_root: Path,
        proc_root: Path,
        disks: Sequence[str],
        interval_s: float,
        policy: MachinePolicy,
        clock: Clock,
    ) -> None:
        self.interval_s = interval_s
        self._sys_root = sys_root
        self._proc_root = proc_root
        self._disks = tuple(disks)
        self._clock = clock
        self._watch = MachineWatch(policy=policy)
        self._disk_calls = DaemonCalls(name="disk-look", limit=HANGING_MAX)
        self._proc_calls = DaemonCalls(name="host-look", limit=2)

    async def collect(self) -> Sequence[Observation]:
        """See the port."""
        try:
            reading = await self._proc_calls.run(self._read, limit_s=PROC_LIMIT_S)
        except TimeoutError:
            raise CollectorFailed(f"reading {self._proc_root} took over {PROC_LIMIT_S:g} s") from None
        except OSError as error:
            raise CollectorFailed(f"{self._proc_root} cannot be read: {error}") from error
        disks = await asyncio.gather(*(self._disk(path) for path in self._disks))
        reading = replace(reading, disks=tuple(disks))
        return self._watch.judge(reading, now_s=self._clock.monotonic_s(), at=self._clock.now())

    async def close(self) -> None:
        """Nothing is held."""

    async def _disk(self, path: str) -> DiskReading:
        def read(_given_up: threading.Event) -> DiskReading:
            return machine_proc.read_disk(path)

        try:
            return await self._disk_calls.run(read, limit_s=DISK_LIMIT_S)
        except TimeoutError:
            return DiskReading(path=path, problem=f"{path}: the file system does not answer within {DISK_LIMIT_S:g} s")
        except OSError as error:
            return DiskReading(path=path, problem=f"{path}: {error}")

    def _read(self, _given_up: threading.Event) -> MachineReading:
        proc = self._proc_root
        processes = machine_proc.read_processes(proc)
        read_services = partial(machine_proc.read_gpu_services, self._sys_root, proc)
        try:
            clock, problem = machine_proc.read_clock(), ""
        except OSError as error:
            clock, problem = None, str(error)
        return MachineReading(
            mounts=machine_proc.read_mounts(proc),
            sleeping=None if processes is None else processes[0],
            clock=clock,
            clock_problem=problem,
            pressure=machine_proc.read_pressure(proc),
            gpu_services=None if processes is None else read_services(processes[1]),
        )
