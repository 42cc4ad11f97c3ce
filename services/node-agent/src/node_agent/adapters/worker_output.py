"""stdout and stderr of each rank: to files byte by byte, to the terminal as whole lines with a `[rank]:` prefix.

The worker always writes into a pipe that the event loop empties, also when no terminal copy is wanted: a worker that
held the log file itself would get ENOSPC from its own print when the disk is full, and training would end. Files
follow torchrun's layout: `<log_dir>/<run_id>/attempt_<topology_version>/<local_rank>/{stdout,stderr}.log, error.json`.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path

from node_agent.adapters.line_output import TAIL_LINE_BYTES_MAX, TAIL_LINES_MAX, LineSplitter
from node_agent.adapters.output_pump import OutputPump
from node_agent.adapters.terminal import Terminal
from node_agent.application.output_tap import OutputPlace, OutputTap
from node_agent.application.ports import RankFiles, TerminalCopy, WorkerStartError
from node_agent.domain.log_rule import LogStream

PIPE_BYTES = 1024 * 1024
"""Room for a busy moment of the agent; Linux's default limit for an unprivileged user (pipe-max-size)."""
READ_BYTES = 64 * 1024
READS_PER_WAKEUP_MAX = 8
"""512 KB, then other ranks and the control plane have their turn."""
DRAIN_BYTES_MAX = 2 * PIPE_BYTES
"""At the end of a worker the pipe is emptied at once; a descendant that still writes cannot hold us here."""


def attempt_dir(log_dir: Path, run_id: str, topology_version: int) -> Path:
    """Folder of one attempt, in torchrun's layout."""
    return log_dir / run_id / f"attempt_{topology_version}"


def rank_files(log_dir: Path, run_id: str, topology_version: int, local_rank: int) -> RankFiles:
    """Paths of one rank in one attempt, in torchrun's layout. Creates nothing."""
    directory = attempt_dir(log_dir, run_id, topology_version) / str(local_rank)
    return RankFiles(
        directory=directory,
        stdout=directory / "stdout.log",
        stderr=directory / "stderr.log",
        error=directory / "error.json",
        stacks=directory / "stacks.log",
    )


class OutputFile:
    """One log file that survives a full disk: what cannot be written is counted and told once."""

    def __init__(self, path: Path, notice: Callable[[str], None]) -> None:
        self._path = path
        self._notice = notice
        self._fd: int | None = None
        self.lost_bytes = 0
        self._removal_told = False
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise WorkerStartError(f"cannot write the log file {path}: {error.strerror}") from error
            self._tell(error)

    def write(self, data: bytes) -> None:
        """Append; never raises."""
        view = memoryview(data)
        if self._fd is not None and os.fstat(self._fd).st_nlink == 0:
            self._make_anew(self._fd)
        while view and self._fd is not None:
            try:
                view = view[os.write(self._fd, view) :]
            except OSError as error:
                if self.lost_bytes == 0:
                    self._tell(error)
                break
        self.lost_bytes += len(view)

    def close(self) -> None:
        """Close; the file then tells itself when it is incomplete."""
        if self._fd is None:
            return
        if self.lost_bytes:
            try:
                os.write(self._fd, f"\n[phalanx] {self.lost_bytes} bytes were lost here (disk full)\n".encode())
            except OSError:  # still full: the terminal was told at the first lost byte
                pass
        os.close(self._fd)
        self._fd = None

    def _make_anew(self, removed_fd: int) -> None:
        """The script removed its log folder: what comes from now on must not go into a file without a name."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            reason = f"it cannot be made anew: {error.strerror}"
        else:
            os.close(removed_fd)
            reason = "it was made anew; what it held is gone"
        if not self._removal_told:
            self._removal_told = True
            self._notice(f"the log file {self._path} was removed while its rank was running; {reason}")

    def _tell(self, error: OSError) -> None:
        self._notice(f"cannot write {self._path}: {error.strerror}. Training goes on; this output is not kept.")


class WatchedStream:
    """What goes to the tap of one stream. Whatever happens there, files and terminal get their output."""

    def __init__(
        self, tap: OutputTap | None, place: OutputPlace, stream: LogStream, notice: Callable[[str], None]
    ) -> None:
        self._tap = tap
        self.place = place
        self.stream = stream
        self._notice = notice

    def take(self, data: bytes) -> None:
        """Pass on; never raises."""
        if self._tap is None:
            return
        try:
            self._tap.take(self.place, self.stream, data)
        except Exception as error:  # noqa: BLE001 - a bug in the watch must not end the training's output
            self._give_up(error)

    def end(self) -> None:
        """The stream ended; never raises."""
        if self._tap is None:
            return
        try:
            self._tap.end(self.place, self.stream)
        except Exception as error:  # noqa: BLE001 - as above
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._tap = None
        self._notice(f"the {self.stream} of rank {self.place.rank} is not watched any more: {error!r}")


class Stream:
    """One stream of one rank: pipe in, file and terminal out."""

    def __init__(
        self, file: OutputFile, terminal: Terminal | None, watched: WatchedStream, pump: OutputPump, *, prefix: bytes
    ) -> None:
        self._file = file
        self._terminal = terminal
        self._watched = watched
        self._prefix = prefix
        self._is_stderr = watched.stream is LogStream.STDERR
        self._lines = LineSplitter()
        self._tail: deque[bytes] = deque(maxlen=TAIL_LINES_MAX)
        self._pump = pump
        read_fd, self.write_fd = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(read_fd, False)
        self._read_fd: int | None = read_fd
        try:
            fcntl.fcntl(read_fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:  # over the user's pipe quota: the default of 64 KB works too
            pass
        pump.add(read_fd, self._read_some)

    def close_write_end(self) -> None:
        """After the worker has it; the pipe then ends with its last writer."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
            self.write_fd = -1

    def forget_tail(self) -> None:
        """What comes from now on is another generation's."""
        self._tail.clear()

    def tail(self) -> tuple[str, ...]:
        """Last lines, the unfinished one included."""
        lines = [*self._tail, self._lines.unfinished] if self._lines.unfinished else list(self._tail)
        return tuple(line[:TAIL_LINE_BYTES_MAX].decode(errors="backslashreplace") for line in lines[-TAIL_LINES_MAX:])

    def drain(self) -> None:
        """Take what is in the pipe now."""
        self._read(DRAIN_BYTES_MAX)

    def close(self) -> None:
        """Drain, flush the unfinished line and close."""
        self.close_write_end()
        self.drain()
        self._end()

    def _read_some(self) -> int:
        return self._read(READS_PER_WAKEUP_MAX * READ_BYTES, once=True)

    def _read(self, bytes_max: int, *, once: bool = False) -> int:
        """Take at most so much, and when `once` only until a read comes back short; returns how much it was."""
        taken = 0
        while taken < bytes_max and self._read_fd is not None:
            try:
                data = os.read(self._read_fd, READ_BYTES)
            except BlockingIOError:
                break
            if not data:
                self._end()
                break
            taken += len(data)
            self._file.write(data)
            if self._terminal is not None or self._is_stderr:
                self._show(self._lines.feed(data))
            self._watched.take(data)
            if once and len(data) < READ_BYTES:
                break  # the pipe was empty after it; the next wake-up announces what comes later
        return taken

    def _show(self, lines: list[bytes]) -> None:
        if self._is_stderr:
            self._tail.extend(lines)
        if self._terminal is not None and lines:
            self._terminal.write([self._prefix + line for line in lines], to_stderr=self._is_stderr)

    def _end(self) -> None:
        if self._read_fd is None:
            return
        self._pump.remove(self._read_fd)
        os.close(self._read_fd)
        self._read_fd = None
        self._show(self._lines.flush())
        self._file.close()
        self._watched.end()


class RankOutput:
    """Both streams of one worker, and the file for its stack dumps."""

    def __init__(
        self,
        place: OutputPlace,
        files: RankFiles,
        copy: TerminalCopy,
        terminal: Terminal,
        tap: OutputTap | None = None,
        pump: OutputPump | None = None,
    ) -> None:
        try:
            files.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WorkerStartError(f"cannot create the log folder {files.directory}: {error.strerror}") from error
        prefix = f"[{place.rank}]: ".encode()
        self._watched = [WatchedStream(tap, place, stream, terminal.notice) for stream in LogStream]
        watched_out, watched_err = self._watched
        pump = pump or OutputPump()
        self.stdout = Stream(
            OutputFile(files.stdout, terminal.notice),
            terminal if copy.stdout else None,
            watched_out,
            pump,
            prefix=prefix,
        )
        self.stderr = Stream(
            OutputFile(files.stderr, terminal.notice),
            terminal if copy.stderr else None,
            watched_err,
            pump,
            prefix=prefix,
        )
        self._stacks_path = files.stacks

    def open_stacks(self) -> int:
        """Descriptor for faulthandler, for the worker; the caller closes its own copy."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        try:
            return os.open(self._stacks_path, flags, 0o644)
        except OSError:  # a full disk: the stdout file has told it, and a worker without stack dumps can train
            return os.open(os.devnull, flags)

    def started(self) -> None:
        """The worker has its ends of the pipes."""
        self.stdout.close_write_end()
        self.stderr.close_write_end()

    def renew(self, place: OutputPlace) -> None:
        """What comes from now on is another generation's, and perhaps another rank's."""
        self.drain()
        self.stderr.forget_tail()
        for watched in self._watched:
            watched.place = place

    def drain(self) -> None:
        """Take what both pipes hold now."""
        self.stdout.drain()
        self.stderr.drain()

    def close(self) -> None:
        """Drain and close both."""
        self.stdout.close()
        self.stderr.close()
