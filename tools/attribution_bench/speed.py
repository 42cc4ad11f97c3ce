"""How fast `phalanx diagnose` reads, and with how much memory, beside floors that do less work on the same bytes.

Measured in a child process, as a user starts it: CPU seconds (this machine's other work does not count) and the
highest resident size. What the command costs before its first line is measured on a small file and taken off.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

BLOCK_BYTES = 1 << 20
PHALANX = Path(sys.executable).with_name("phalanx")
SPOKE = (0, 3)
"""Exit codes of a diagnosis: a verdict, or unknown."""
RE_LINES = 2_000
"""So many lines are searched with Python's re, pattern by pattern: all of them would take hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One file read in one way."""

    what: str
    lines: int
    bytes: int
    cpu_s: float
    wall_s: float
    rss_mib: float

    @property
    def lines_per_s(self) -> float:
        """On one core."""
        return self.lines / self.cpu_s if self.cpu_s else 0.0


def write_log(path: Path, lines: Sequence[str], size: int) -> int:
    """Fill a file of about so many bytes with these lines in turn; returns how many lines it has."""
    block = ("\n".join(lines) + "\n").encode()
    times = max(1, size // len(block))
    with path.open("wb") as file:
        for _ in range(times):
            file.write(block)
    return times * len(lines)


def diagnosed(what: str, path: Path, lines: int, *, piped: bool = False, start: Reading | None = None) -> Reading:
    """`phalanx diagnose` on a file, or on the same bytes from a pipe.

    Raises:
        RuntimeError: when it gave neither a verdict nor unknown.
    """
    command = [str(PHALANX), "diagnose", "--format", "json", "-" if piped else str(path)]
    feeder = subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE) if piped else None
    began = time.perf_counter()
    child = subprocess.Popen(
        command,
        stdin=feeder.stdout if feeder else subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    if feeder is not None and feeder.stdout is not None:
        feeder.stdout.close()
    told = child.stderr.read().decode(errors="replace") if child.stderr else ""
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall_s = time.perf_counter() - began
    if feeder is not None:
        feeder.wait()
    if child.returncode not in SPOKE:
        raise RuntimeError(f"phalanx diagnose on {path} ended with {child.returncode}: {told[-400:]}")
    return Reading(
        what=what,
        lines=lines,
        bytes=path.stat().st_size,
        cpu_s=max(1e-6, used.ru_utime + used.ru_stime - (start.cpu_s if start else 0.0)),
        wall_s=max(1e-6, wall_s - (start.wall_s if start else 0.0)),
        rss_mib=used.ru_maxrss / 1024,
    )


def floors(path: Path, lines: int, patterns: Sequence[str]) -> list[Reading]:
    """The same file read, cut into lines, and (a part of it) searched with Python's re."""
    out = [
        _timed("floor: reading the file", path, lines, lambda: sum(len(block) for block in _blocks(path))),
        _timed("floor: cutting it into lines", path, lines, lambda: sum(block.count(b"\n") for block in _blocks(path))),
        _timed("floor: one str for each line", path, lines, lambda: _strings(path)),
    ]
    with path.open(encoding="utf-8", errors="replace") as file:
        some = [line for line, _ in zip(file, range(RE_LINES), strict=False)]
    compiled = [found for pattern in patterns if (found := _compiled(pattern)) is not None]
    what = f"floor: Python re, {len(compiled)} patterns, {len(some)} lines"
    out.append(_timed(what, path, len(some), lambda: sum(_hits(compiled, line) for line in some)))
    return out


def _timed(what: str, path: Path, lines: int, work: Callable[[], object]) -> Reading:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return Reading(
        what=what,
        lines=lines,
        bytes=path.stat().st_size,
        cpu_s=max(1e-6, time.process_time() - cpu),
        wall_s=time.perf_counter() - wall,
        rss_mib=0.0,
    )


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            yield block


def _strings(path: Path) -> int:
    with path.open(encoding="utf-8", errors="replace") as file:
        return sum(1 for _ in file)


def _compiled(pattern: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern)
    except re.error:  # RE2 has spellings that re has not; the floor is then a little lower.
        return None


def _hits(patterns: Sequence[re.Pattern[str]], line: str) -> int:
    return sum(1 for pattern in patterns if pattern.search(line))
