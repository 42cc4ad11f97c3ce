"""Ends everything a worker started: its session, its descendants, and what daemonised away from both.

A daemonised descendant has left the session and its parents; it is known by what it inherited: the marker in its
environment (when it ran exec) or the open stacks file (when it only forked).
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from worker_link.process_tree import ProcessRow, descendants, members, read_processes

MARKER_VARIABLE = "PHALANX_WORKER_ID"
ENVIRON_BYTES_MAX = 1024 * 1024
FDS_LOOKED_AT_MAX = 1024
DEATH_TIME_S_MAX = 2.0
"""A killed process ends in milliseconds, a large one in a second; past this it is in uninterruptible sleep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prey:
    """One worker to clear away, alive or not."""

    pid: int
    start_ticks: int
    marker: str
    stacks_path: str


def pids_of(prey: Sequence[Prey], *, adopters: Collection[int]) -> set[int]:
    """Living processes that belong to these workers, the workers themselves included.

    Args:
        prey: the workers.
        adopters: subreapers above them (nursery, agent), to which daemonised descendants come.
    """
    # One scan of /proc: 8 us a process, so about 25 ms on a busy host; only done while ranks are being stopped.
    rows = read_processes()
    roots = {p.pid for p in prey if p.pid in rows and rows[p.pid].start_ticks == p.start_ticks}
    # A session outlives its leader and keeps the leader's pid from being used again, until it is empty.
    sessions = {p.pid for p in prey if p.pid in roots or p.pid not in rows}
    found = roots | members(rows.values(), sessions)
    found |= {row.pid for row in rows.values() if row.parent_pid in adopters and _belongs(row, prey)}
    found |= descendants(rows, found)
    return {pid for pid in found if rows[pid].alive and pid != os.getpid()}


def _belongs(row: ProcessRow, prey: Sequence[Prey]) -> bool:
    markers = {f"{MARKER_VARIABLE}={p.marker}".encode() for p in prey}
    try:
        with open(f"/proc/{row.pid}/environ", "rb") as file:
            if markers & set(file.read(ENVIRON_BYTES_MAX).split(b"\0")):
                return True
        paths = {p.stacks_path for p in prey}
        folder = f"/proc/{row.pid}/fd"
        return any(os.readlink(f"{folder}/{fd}") in paths for fd in os.listdir(folder)[:FDS_LOOKED_AT_MAX])
    except OSError:  # gone meanwhile, or another user's: then it is not ours to kill
        return False


async def kill_all(prey: Sequence[Prey], *, adopters: Collection[int]) -> tuple[int, ...]:
    """SIGKILL in rounds until a scan finds nothing, for DEATH_TIME_S_MAX at most.

    Returns:
        Pids that are still there.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + DEATH_TIME_S_MAX
    while left := pids_of(prey, adopters=adopters):
        for pid in left:
            send(pid, signal.SIGKILL)
        remaining_s = give_up_at - loop.time()
        if remaining_s <= 0:
            return tuple(sorted(left))
        # A new child may have been born between scan and kill, so the next round comes soon in any case.
        await wait_gone(left, timeout_s=min(remaining_s, 0.1))
    return ()


def send(pid: int, number: int) -> bool:
    """One signal; False when the process is gone or not ours."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


async def wait_gone(pids: Collection[int], *, timeout_s: float) -> None:
    """Return when all have ended (zombies included) or the time is over."""
    loop = asyncio.get_running_loop()
    open_fds: set[int] = set()
    empty = asyncio.Event()

    def ended(fd: int) -> None:
        loop.remove_reader(fd)
        os.close(fd)
        open_fds.discard(fd)
        if not open_fds:
            empty.set()

    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except OSError:  # ended already
            continue
        open_fds.add(fd)
        loop.add_reader(fd, ended, fd)
    if not open_fds:
        return
    try:
        async with asyncio.timeout(timeout_s):
            await empty.wait()
    except TimeoutError:  # the caller looks again and reports
        pass
    finally:
        for fd in list(open_fds):
            loop.remove_reader(fd)
            os.close(fd)
