"""application.status_views.RankRecords and ProcessLook: log and stacks files of a rank, and /proc."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from node_agent.adapters.dump_signal import answers_dump_signal
from node_agent.application.ports import RankFiles, WorkerHandle
from node_agent.application.status_views import FileTail, LogStreamName
from worker_link.process_tree import read_process

LOOK_INTERVAL_S = 0.02
REST_S = 0.06
"""A dump is written in one go within a millisecond; one that has not grown for so long is complete."""
DUMP_BYTES_MAX = 2_000_000
"""As much as domain.stack_dump reads."""


class RankFileRecords:
    """Reads with bounds; a file that is missing, removed or replaced is an empty one."""

    def exist(self, files: RankFiles) -> bool:
        """See the port."""
        return files.directory.is_dir()

    async def tail(self, files: RankFiles, stream: LogStreamName, *, bytes_max: int) -> FileTail:
        """See the port."""
        path = files.stdout if stream is LogStreamName.STDOUT else files.stderr
        # In a thread: it may be a network file system, and what it holds is no longer in memory.
        return await asyncio.to_thread(_tail, path, bytes_max)

    def dump_mark(self, files: RankFiles) -> int:
        """See the port."""
        return _size(files.stacks)

    async def dump_after(self, files: RankFiles, mark: int, *, limit_s: float) -> str:
        """See the port."""
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + limit_s
        size, since = mark, loop.time()
        while loop.time() < give_up_at:
            await asyncio.sleep(LOOK_INTERVAL_S)
            now = _size(files.stacks)
            if now != size:
                size, since = now, loop.time()
            elif size > mark and loop.time() - since >= REST_S:
                break
        return _read(files.stacks, mark, DUMP_BYTES_MAX).decode(errors="backslashreplace")


class ProcLook:
    """What /proc says of a worker's process, and of no other that got its pid."""

    def state_of(self, handle: WorkerHandle) -> str:
        """See the port."""
        row = read_process(handle.pid)
        return row.state if row is not None and row.start_ticks == handle.start_ticks else ""

    def answers_dump_signal(self, handle: WorkerHandle, files: RankFiles) -> bool:
        """See the port."""
        return answers_dump_signal(handle, files.stacks)


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
