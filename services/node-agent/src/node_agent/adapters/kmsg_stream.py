"""The three things that a kernel log may be: the device, a regular file that grows, a FIFO. All give whole records."""

from __future__ import annotations

import asyncio
import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

RECORD_BYTES_MAX = 8_192
"""CONSOLE_EXT_LOG_MAX of the kernel (include/linux/printk.h; PRINTK_MESSAGE_MAX in newer ones). A read gets one."""
READS_MAX = 512
"""Records of the device in one chunk."""
CHUNK_BYTES = 256 << 10


class LogAbsent(Exception):
    """There is no log to read; the text says why."""

    def __init__(self, reason: str, *, may_come: bool) -> None:
        super().__init__(reason)
        self.may_come = may_come


@dataclass(frozen=True, slots=True, kw_only=True)
class KmsgChunk:
    """Records, a newline after each.

    Attributes:
        drained: nothing more is there now.
        restarted: the log begins anew with it: the file was truncated or replaced.
        backlog: it was there before the log was opened, or may have been.
    """

    data: bytes = b""
    drained: bool = False
    restarted: bool = False
    backlog: bool = False


class KmsgStream(Protocol):
    """An open log."""

    timed: bool
    """Its times are those of this machine's boot."""

    def read(self) -> KmsgChunk:
        """What is there now; never waits.

        Raises:
            OSError: it cannot be read any more.
        """
        ...

    async def wait(self, limit_s: float) -> None:
        """Until there may be more, or the limit is over."""
        ...

    def close(self) -> None:
        """Give the descriptor back."""
        ...


def open_stream(path: Path, *, poll_s: float, from_start: bool) -> KmsgStream:
    """Open what is there. `from_start`: it was awaited, so nothing in it is old.

    Raises:
        LogAbsent: it is not there, or may not be read.
    """
    try:
        kind = path.stat().st_mode
        # Its own writer: a FIFO without any would be at its end over and over.
        flags = os.O_RDWR if stat.S_ISFIFO(kind) else os.O_RDONLY
        fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise LogAbsent(f"{path} is not there", may_come=True) from error
    except OSError as error:
        raise LogAbsent(f"{path}: {error.strerror}", may_come=False) from error
    if stat.S_ISREG(kind):
        return FileTail(path, fd, poll_s=poll_s, backlog_bytes=0 if from_start else os.fstat(fd).st_size)
    if stat.S_ISCHR(kind):
        return KernelDevice(fd)
    if stat.S_ISFIFO(kind):
        return Fifo(fd)
    os.close(fd)
    raise LogAbsent(f"{path} is neither a device, nor a file, nor a FIFO", may_come=False)


class _Pollable:
    """A descriptor that the event loop can wait for."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def wait(self, limit_s: float) -> None:
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        try:
            loop.add_reader(self._fd, readable.set)
        except PermissionError:  # a device that nobody can wait for, such as /dev/null
            await asyncio.sleep(limit_s)
            return
        try:
            async with asyncio.timeout(limit_s):
                await readable.wait()
        except TimeoutError:
            return  # quiet: the normal case
        finally:
            loop.remove_reader(self._fd)

    def close(self) -> None:
        os.close(self._fd)


class KernelDevice(_Pollable):
    """/dev/kmsg: each read gives one record, the oldest that is still there first."""

    timed = True

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._drained_once = False

    def read(self) -> KmsgChunk:
        """Up to READS_MAX records."""
        records: list[bytes] = []
        drained = False
        while len(records) < READS_MAX:
            try:
                record = os.read(self._fd, RECORD_BYTES_MAX)
            except BlockingIOError:
                drained = True
                break
            except BrokenPipeError:
                continue  # overrun: the next read gives the oldest record, and its number tells how many are missing
            if not record:
                drained = True
                break
            # ` KEY=value` lines after the first tell the device in udev's words.
            records.append(record.partition(b"\n")[0] + b"\n")
        backlog, self._drained_once = not self._drained_once, self._drained_once or drained
        return KmsgChunk(data=b"".join(records), drained=drained, backlog=backlog)


class _Lines:
    """Puts records together that arrive in pieces; one without an end is given up at four times the longest."""

    def __init__(self) -> None:
        self._rest = b""
        self._skipping = False

    def whole(self, data: bytes) -> bytes:
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        self._rest = data[end:]
        whole = data[:end]
        if self._skipping and whole:
            whole = whole[whole.index(b"\n") + 1 :]
            self._skipping = False
        if len(self._rest) > 4 * RECORD_BYTES_MAX:
            self._rest, self._skipping = b"", True
        return whole


class Fifo(_Pollable):
    """A FIFO; several writers may come and go."""

    timed = False

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self._lines = _Lines()

    def read(self) -> KmsgChunk:
        """What is in the pipe, up to CHUNK_BYTES."""
        try:
            data = os.read(self._fd, CHUNK_BYTES)
        except BlockingIOError:
            return KmsgChunk(drained=True)
        return KmsgChunk(data=self._lines.whole(data))


class FileTail:
    """A regular file that grows, is truncated, or is replaced by another of its name."""

    timed = False

    def __init__(self, path: Path, fd: int, *, poll_s: float, backlog_bytes: int) -> None:
        self._path = path
        self._fd = fd
        self._poll_s = poll_s
        self._position = 0
        self._lines = _Lines()
        self._backlog_bytes = backlog_bytes

    def read(self) -> KmsgChunk:
        """The next piece. The old file is read to its end before its successor is begun."""
        backlog = self._position < self._backlog_bytes
        size = min(CHUNK_BYTES, self._backlog_bytes - self._position) if backlog else CHUNK_BYTES
        data = os.pread(self._fd, size, self._position)
        if data:
            self._position += len(data)
            return KmsgChunk(data=self._lines.whole(data), backlog=backlog)
        restarted = self._truncated() or self._replaced()
        if restarted:
            self._position, self._backlog_bytes, self._lines = 0, 0, _Lines()
        return KmsgChunk(drained=not restarted, restarted=restarted)

    async def wait(self, limit_s: float) -> None:
        """Regular files wake nobody; POLL_S is how late a line may be."""
        await asyncio.sleep(min(limit_s, self._poll_s))

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)

    def _truncated(self) -> bool:
        return os.fstat(self._fd).st_size < self._position

    def _replaced(self) -> bool:
        """Whether another file has the name now; it is open then. None: its writer is about to make it."""
        try:
            there, ours = self._path.stat(), os.fstat(self._fd)
            if (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino):
                return False
            fd = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        os.close(self._fd)
        self._fd = fd
        return True
