"""application.status_views.RankRecords and ProcessLook: log and stacks files of a rank, and /proc."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from node_agent.adapters.daemon_calls import DaemonCalls
from node_agent.adapters.dump_signal import answers_dump_signal
from node_agent.application.ports import RankFiles, WorkerHandle
from node_agent.application.status_views import FileTail, LogStreamName
from worker_link.process_tree import read_process

READS_MAX = 4
"""At a time, those that hang in a network file system included."""
READ_LIMIT_S = 5.0
"""A third of what one connection may last."""
LOOK_INTERVAL_S = 0.02
REST_S = 0.06
"""A dump is written in one go within a millisecond; one that has not grown for so long is complete."""
DUMP_BYTES_MAX = 2_000_000
"""As much as domain.stack_dump reads."""

T = TypeVar("T")


class RankFileRecords:
    """Reads with bounds, never on the event loop; a file that is missing, removed or replaced is an empty one.

    Every method raises TimeoutError when the file system does not answer.
    """

    def __init__(self) -> None:
        self._calls = DaemonCalls(name="status-files", limit=READS_MAX)

    async def tail(self, files: RankFiles, stream: LogStreamName, *, bytes_max: int) -> FileTail:
        """See the port."""
        path = files.stdout if stream is LogStreamName.STDOUT else files.stderr
        return await self._run(lambda: _tail(path, bytes_max))

    async def dump_mark(self, files: RankFiles) -> int:
        """See the port."""
        return await self._run(lambda: _size(files.stacks))

    async def dump_after(self, files: RankFiles, mark: int, *, limit_s: float) -> str:
        """See the port."""
        return await self._run(lambda: _dump_after(files.stacks, mark, limit_s), longer_s=limit_s)

    async def _run(self, read: Callable[[], T], *, longer_s: float = 0.0) -> T:
        return await self._calls.run(lambda _given_up: read(), limit_s=READ_LIMIT_S + longer_s)


class ProcLook:
    """What /proc says of a worker's process, and of no other that got its pid."""

    def state_of(self, handle: WorkerHandle) -> str:
        """See the port."""
        row = read_process(handle.pid)
        return row.state if row is not None and row.start_ticks == handle.start_ticks else ""

    def answers_dump_signal(self, handle: WorkerHandle, files: RankFiles) -> bool:
        """See the port."""
        return answers_dump_signal(handle, files.stacks)


def _dump_after(path: Path, mark: int, limit_s: float) -> str:
    give_up_at_s = time.monotonic() + limit_s
    size, since_s = mark, time.monotonic()
    while time.monotonic() < give_up_at_s:
        time.sleep(LOOK_INTERVAL_S)
        now = _size(path)
        if now != size:
            size, since_s = now, time.monotonic()
        elif size > mark and time.monotonic() - since_s >= REST_S:
            break
    return _read(path, mark, DUMP_BYTES_MAX).decode(errors="backslashreplace")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # the script removed its folder, or never dumped: nothing is there
        return 0


def _read(path: Path, offset: int, bytes_max: int) -> bytes:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(bytes_max)
    except OSError:  # removed meanwhile: the caller says that nothing came
        return b""


def _tail(path: Path, bytes_max: int) -> FileTail:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            offset = max(0, size - bytes_max)
            file.seek(offset)
            return FileTail(path=str(path), size_bytes=size, offset=offset, data=file.read(bytes_max))
    except OSError:  # not started yet, or removed by the script; the path in the answer shows where it was looked for
        return FileTail(path=str(path), size_bytes=0, offset=0, data=b"")
