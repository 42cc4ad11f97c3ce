"""application.progress_ports.ProcessReader on /proc. The start time guards each pid against its next owner."""

from __future__ import annotations

import os
from collections.abc import Collection

from node_agent.application.ports import WorkerHandle
from node_agent.application.progress_ports import ProcessSample
from node_agent.domain.rank_evidence import ProcessState
from node_agent.domain.rank_looks import ProcessUsage
from worker_link.process_tree import descendants, read_processes, stat_fields

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME, _NUM_THREADS, _START = 11, 12, 17, 19
"""Places of fields 14, 15, 20 and 22 of proc_pidstat_fields(5) behind the command's name, which ends field 2."""


class ProcReader:
    """Reads /proc/PID/stat and /proc/PID/io, neither of which waits for the process."""

    def sample(self, handle: WorkerHandle) -> ProcessSample | None:
        """See the port. About 15 us."""
        fields = stat_fields(handle.pid)
        if fields is None or int(fields[_START]) != handle.start_ticks:
            return None
        if fields[0] == b"Z" and int(fields[_NUM_THREADS]) <= 1:
            return None  # it is dead, its pidfd has told, and only its status is still to be fetched
        return ProcessSample(state=ProcessState.of(fields[0].decode()), cpu_s=_cpu_s(fields))

    def usage(self, handle: WorkerHandle) -> ProcessUsage | None:
        """See the port. Scans /proc for the children: some 10 ms on a busy host, while a rank is suspected only."""
        fields = stat_fields(handle.pid)
        if fields is None or int(fields[_START]) != handle.start_ticks:
            return None
        storage, anything = _io(handle.pid)
        return ProcessUsage(
            cpu_s=_cpu_s(fields),
            children_cpu_s=_cpu_of(descendants(read_processes(), [handle.pid])),
            storage_bytes=storage,
            any_bytes=anything,
        )


def _cpu_s(fields: list[bytes]) -> float:
    return (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS_PER_S


def _cpu_of(pids: Collection[int]) -> float:
    rows = (stat_fields(pid) for pid in pids)
    return sum(_cpu_s(fields) for fields in rows if fields is not None)


def _io(pid: int) -> tuple[int, int]:
    """Bytes through storage, and through any read or write (proc_pid_io(5)); zeros where it cannot be read."""
    try:
        with open(f"/proc/{pid}/io", "rb") as file:
            lines = file.read(4096).split(b"\n")
    except OSError:  # ended, another user's, or a kernel without task accounting
        return 0, 0
    counts = {name: int(value) for name, _, value in (line.partition(b":") for line in lines) if value.strip()}
    return (
        counts.get(b"read_bytes", 0) + counts.get(b"write_bytes", 0),
        counts.get(b"rchar", 0) + counts.get(b"wchar", 0),
    )
