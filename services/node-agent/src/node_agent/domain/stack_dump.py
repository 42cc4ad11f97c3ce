"""Reads faulthandler's dumps of all threads, as CPython 3.11 to 3.14 write them.

A dump is evidence from a process that may be killed next, so a torn or strange one is read as far as it goes: a thread
that is not surely the main one is not taken for it, and lines that were not understood are counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from node_agent.domain.python_traceback import Frame

TEXT_LENGTH_MAX = 2_000_000
"""Characters read, from the end: 100 threads with 100 frames of 200 characters, which is where faulthandler stops."""
FRAMES_MAX = 100
"""Frames that faulthandler writes per thread; 3.13.0 does not mark that it stopped there, other versions do."""
_CUT = ("  ...", "  <truncated rest of calls>", "  <freed frame>", "  <tstate is freed>")

_THREAD = re.compile(r"^(Current thread|Thread) (0x[0-9a-fA-F]+)(?: \[.*\])? \(most recent call first\):$")
_FRAME = re.compile(r'^  File (?:"(.*)"|\?\?\?), line (\d+|\?\?\?) in (.+)$')


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpedThread:
    """One thread.

    Attributes:
        thread_id: as printed; the same thread has the same one in the next dump.
        current: the one that ran the signal handler.
        frames: innermost first.
        cut: outer frames are missing.
    """

    thread_id: str
    current: bool
    frames: tuple[Frame, ...]
    cut: bool = False

    @property
    def started_by_threading(self) -> bool:
        """A thread of the threading module: its outermost frame is there."""
        outermost = self.frames[-1] if self.frames else None
        return outermost is not None and outermost.function == "_bootstrap" and "threading" in outermost.file

    @property
    def started_by_interpreter(self) -> bool:
        """The main thread: its outermost frame is a module's top level, or runpy's for `-m`."""
        outermost = self.frames[-1] if self.frames else None
        return outermost is not None and (outermost.function == "<module>" or "<frozen runpy>" in outermost.file)


@dataclass(frozen=True, slots=True, kw_only=True)
class StackDump:
    """One dump of one process.

    Attributes:
        unread_lines: lines that are no part of a dump as known.
    """

    threads: tuple[DumpedThread, ...]
    unread_lines: int = 0

    @property
    def main(self) -> DumpedThread | None:
        """The main thread, which runs the training script; None when it is not surely among the threads.

        It is known by its outermost frame. When that is cut, the current thread is taken if it is a deep one: the
        kernel gives a process's signal to the main thread when that accepts it.
        """
        for thread in reversed(self.threads):
            if thread.started_by_interpreter:
                return thread
        for thread in self.threads:
            if thread.current and thread.cut and not thread.started_by_threading:
                return thread
        return None


def parse_dumps(text: str) -> tuple[StackDump, ...]:
    """All dumps in a file that faulthandler appends to, oldest first. A line without its end is left out."""
    lines = text[-TEXT_LENGTH_MAX:].split("\n")[:-1]
    dumps: list[StackDump] = []
    threads: list[DumpedThread] = []
    unread = 0
    for thread, strange in _threads(lines):
        unread += strange
        if thread is None:
            continue
        # Nothing separates two dumps, but the main thread is the last of one, and none names a thread twice.
        if threads and (threads[-1].started_by_interpreter or thread.thread_id in {t.thread_id for t in threads}):
            dumps.append(StackDump(threads=tuple(threads), unread_lines=unread - strange))
            threads, unread = [], strange
        threads.append(thread)
    if threads:
        dumps.append(StackDump(threads=tuple(threads), unread_lines=unread))
    return tuple(dumps)


def parse_last_dump(text: str) -> StackDump | None:
    """The newest dump, or None when there is none."""
    dumps = parse_dumps(text)
    return dumps[-1] if dumps else None


def _threads(lines: list[str]) -> Iterator[tuple[DumpedThread | None, int]]:
    """Each thread with the count of strange lines in it; None for what comes before the first."""
    header: re.Match[str] | None = None
    frames: list[Frame] = []
    cut, strange = False, 0
    for line in lines:
        begun = _THREAD.match(line)
        if begun is not None:
            yield _thread(header, frames, cut=cut), strange
            header, frames, cut, strange = begun, [], False, 0
        elif header is not None and (match := _FRAME.match(line)):
            frames.append(_frame(match))
        elif line in _CUT:
            cut = True
        elif line not in ("", "...", "  Garbage-collecting", "  <no Python frame>"):
            strange += 1
    yield _thread(header, frames, cut=cut), strange


def _thread(header: re.Match[str] | None, frames: list[Frame], *, cut: bool) -> DumpedThread | None:
    if header is None:
        return None
    return DumpedThread(
        thread_id=header[2],
        current=header[1] == "Current thread",
        frames=tuple(frames),
        cut=cut or len(frames) >= FRAMES_MAX,
    )


def _frame(match: re.Match[str]) -> Frame:
    file, line, function = match.groups()
    return Frame(file=file or "???", line=int(line) if line.isdigit() else 0, function=function)
