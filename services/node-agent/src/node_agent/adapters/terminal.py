"""The person's terminal: whole lines from all ranks, never in the way of training.

A thread writes, because a terminal may be slow or stopped (Ctrl-S) and its descriptor cannot be made non-blocking
without changing it for every other process. When the queue is full, lines are dropped, counted and told.
"""

from __future__ import annotations

import os
import threading
from collections import deque

from service_kit.foreign_text import printable
from service_kit.secret_texts import without_secrets

QUEUE_BYTES_MAX = 4 * 1024 * 1024
"""A burst of eight chatty ranks; more would only delay what the person wants to see."""
WRITE_BYTES_MAX = 64 * 1024
CLOSE_TIME_S_MAX = 1.0


class Terminal:
    """Two descriptors (stdout, stderr) behind one ordered queue."""

    def __init__(self, *, stdout_fd: int = 1, stderr_fd: int = 2) -> None:
        self._fds = (stdout_fd, stderr_fd)
        self._queue: deque[tuple[int, bytes]] = deque()
        self._queued_bytes = 0
        self._dropped_lines = 0
        self._dropped_untold = 0
        self._broken = False
        self._closing = False
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None

    @property
    def dropped_lines(self) -> int:
        """Lines that the terminal did not get."""
        return self._dropped_lines

    def write(self, lines: list[bytes], *, to_stderr: bool = False) -> None:
        """Queue lines (without newline); returns at once."""
        if not lines:
            return
        text = b"\n".join(lines) + b"\n"
        with self._wake:
            if self._broken or self._queued_bytes + len(text) > QUEUE_BYTES_MAX:
                self._dropped_lines += len(lines)
                self._dropped_untold += len(lines)
                return
            if self._dropped_untold:
                note = f"phalanx: the terminal is too slow: {self._dropped_untold} lines are only in the log files\n"
                self._queue.append((self._fds[1], note.encode()))
                self._dropped_untold = 0
            self._queue.append((self._fds[1] if to_stderr else self._fds[0], text))
            self._queued_bytes += len(text)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="terminal", daemon=True)
                self._thread.start()
            self._wake.notify()

    def notice(self, sentence: str) -> None:
        """One message of the agent itself. It may quote another node's text, which must not move the cursor."""
        self.write([f"phalanx: {printable(without_secrets(sentence))}".encode()], to_stderr=True)

    def close(self) -> None:
        """Write out what is queued, for a second at most."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(CLOSE_TIME_S_MAX)

    def _run(self) -> None:
        while True:
            with self._wake:
                while not self._queue:
                    if self._closing:
                        return
                    self._wake.wait()
                fd, text = self._take()
            failed = not _write_all(fd, text)
            with self._wake:
                self._queued_bytes = max(0, self._queued_bytes - len(text))
                if failed:
                    # The terminal is gone (closed window, broken pipe): the files have it all, training goes on.
                    self._broken = True
                    self._queue.clear()
                    self._queued_bytes = 0

    def _take(self) -> tuple[int, bytes]:
        """The next texts for one descriptor, together: many ranks print one line each, and a write costs more."""
        fd, text = self._queue.popleft()
        texts, size = [text], len(text)
        while self._queue and self._queue[0][0] == fd and size < WRITE_BYTES_MAX:
            texts.append(self._queue.popleft()[1])
            size += len(texts[-1])
        return fd, b"".join(texts)


def _write_all(fd: int, text: bytes) -> bool:
    view = memoryview(text)
    while view:
        try:
            written = os.write(fd, view)
        except BlockingIOError:
            # Somebody else made the descriptor non-blocking; wait in the kernel until it takes more.
            _wait_writable(fd)
            continue
        except OSError:
            return False
        view = view[written:]
    return True


def _wait_writable(fd: int) -> None:
    import select

    select.select([], [fd], [], 1.0)
