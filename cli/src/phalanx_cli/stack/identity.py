"""Who a process is: its pid alone names whoever has that number now, so its start time and the boot are kept too."""

import os
import select
import signal
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")

_STARTTIME_AFTER_COMM = 19
"""Place of field 22 of /proc/PID/stat (starttime, ticks since boot) behind the command's closing bracket, proc(5)."""


def boot_id() -> str:
    """Return the kernel's id of this boot; ticks since boot mean nothing in another one."""
    return (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """One process, told from a later one with the same pid."""

    pid: int
    start_ticks: int
    boot_id: str

    def is_alive(self) -> bool:
        """Return whether this very process still runs; a zombie does not."""
        return self.boot_id == boot_id() and _running_since_ticks(self.pid) == self.start_ticks

    def age_s(self) -> float | None:
        """Return seconds since the process started, or none when it is gone."""
        if not self.is_alive():
            return None
        uptime_s = float((_PROC / "uptime").read_text(encoding="ascii").split()[0])
        return max(0.0, uptime_s - self.start_ticks / os.sysconf("SC_CLK_TCK"))

    def signal(self, signum: signal.Signals) -> bool:
        """Send a signal to this very process; return false when it is gone.

        The pidfd is opened before the identity is compared: a process that takes the pid in between is not reached.
        """
        pidfd = self._open()
        if pidfd is None:
            return False
        try:
            signal.pidfd_send_signal(pidfd, signum)
        except ProcessLookupError:
            return False
        finally:
            os.close(pidfd)
        return True

    def wait_gone(self, timeout_s: float) -> bool:
        """Block until the process has ended, also when it is not our child; return false after `timeout_s`."""
        pidfd = self._open()
        if pidfd is None:
            return True
        try:
            return pidfd_ended(pidfd, timeout_s)
        finally:
            os.close(pidfd)

    def _open(self) -> int | None:
        try:
            pidfd = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        if self.is_alive():
            return pidfd
        os.close(pidfd)
        return None


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of a running process, or none when there is no such process."""
    start_ticks = _running_since_ticks(pid)
    return None if start_ticks is None else ProcessIdentity(pid=pid, start_ticks=start_ticks, boot_id=boot_id())


def pidfd_ended(pidfd: int, timeout_s: float) -> bool:
    """Block up to `timeout_s` until the process of a pidfd has ended; return whether it has."""
    waiter = select.poll()
    waiter.register(pidfd, select.POLLIN)
    return bool(waiter.poll(timeout_s * 1000))


def _running_since_ticks(pid: int) -> int | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The command may hold blanks and brackets itself: the fields that can be split start behind the last bracket.
    fields = stat[stat.rindex(")") + 1 :].split()
    return None if fields[0] in {"Z", "X"} else int(fields[_STARTTIME_AFTER_COMM])
