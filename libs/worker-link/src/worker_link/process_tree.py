"""Who descends from whom, read from /proc: used to end a worker with everything it started.

One scan is a snapshot; a caller that wants nothing left repeats it until it finds nothing.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    """Fields of /proc/PID/stat (proc(5)). `start_ticks` with the pid names one process for ever."""

    pid: int
    state: str
    parent_pid: int
    group: int
    session: int
    start_ticks: int

    @property
    def alive(self) -> bool:
        """False for a zombie: it runs nothing and holds nothing but its pid."""
        return self.state not in ("Z", "X", "x")


def read_process(pid: int) -> ProcessRow | None:
    """One process, or None when it does not exist (any more)."""
    fields = stat_fields(pid)
    if fields is None:
        return None
    return ProcessRow(
        pid=pid,
        state=fields[0].decode(),
        parent_pid=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
    )


def stat_fields(pid: int) -> list[bytes] | None:
    """/proc/PID/stat from the state on, field 3 of proc_pid_stat(5), at least up to the start time; None when gone."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # gone between listing and reading: the normal case here
        return None
    try:
        text = os.read(fd, 4096)
    except OSError:  # it ended between open and read
        return None
    finally:
        os.close(fd)
    # The command name is in parentheses and may hold spaces and parentheses itself.
    fields = text[text.rfind(b")") + 2 :].split()
    return fields if len(fields) >= 20 else None


def read_processes() -> dict[int, ProcessRow]:
    """All processes that are visible from here, by pid."""
    rows = (read_process(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return {row.pid: row for row in rows if row is not None}


def descendants(rows: dict[int, ProcessRow], roots: Collection[int]) -> set[int]:
    """Pids below the roots, without the roots."""
    children: dict[int, list[int]] = {}
    for row in rows.values():
        children.setdefault(row.parent_pid, []).append(row.pid)
    found: set[int] = set()
    open_pids = list(roots)
    while open_pids:
        for child in children.get(open_pids.pop(), ()):
            if child not in found:
                found.add(child)
                open_pids.append(child)
    return found - set(roots)


def members(rows: Iterable[ProcessRow], sessions: Collection[int]) -> set[int]:
    """Pids whose session is one of these."""
    return {row.pid for row in rows if row.session in sessions}


def catches_signal(pid: int, number: int) -> bool:
    """Whether a process has a handler for this signal at this moment; False when it is gone, too.

    A signal without a handler ends most processes: a worker that is still importing, or that ran exec, has none.
    """
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            for line in file:
                if line.startswith(b"SigCgt:"):
                    return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    except (OSError, ValueError, IndexError):  # gone between listing and reading
        return False
    return False
