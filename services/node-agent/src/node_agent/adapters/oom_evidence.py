"""Tells the kernel's out-of-memory kill from kill -9, where the kernel says so.

Two witnesses: the oom_kill counter of our memory cgroup (v2 memory.events, v1 memory.oom_control) and the kernel log's
`Killed process PID`. The counter is raised before the process is killed, so an unchanged counter is a no.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from node_agent.application.ports import OomKill

_KILLED = re.compile(rb"Killed process (\d+)")
_KMSG_RECORDS_MAX = 4096
"""Records read per look; the kernel's ring holds fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OomVerdict:
    """Answer for one worker that died of SIGKILL."""

    oom_kill: OomKill
    evidence: str = ""


class OomEvidence:
    """Keeps the counter's last value and the open kernel log."""

    def __init__(self, *, counter_file: Path | None = None, kmsg: Path = Path("/dev/kmsg")) -> None:
        self._counter_file = counter_file if counter_file is not None else find_counter_file()
        self._killed: set[int] = set()
        self._kmsg = _open_log(kmsg)
        self._counter = self._read_counter()

    def refresh(self) -> None:
        """Take the present counter as the baseline; called before a worker starts."""
        self._counter = self._read_counter()

    def judge(self, pid: int) -> OomVerdict:
        """Was this SIGKILL the kernel's?"""
        before, now = self._counter, self._read_counter()
        self._counter = now
        self._read_log()
        if pid in self._killed:
            self._killed.discard(pid)
            return OomVerdict(oom_kill=OomKill.YES, evidence=f"kernel log: Killed process {pid}")
        if before is None or now is None:
            if self._kmsg is None or not pids_are_the_kernels():
                return OomVerdict(oom_kill=OomKill.UNKNOWN)
            return OomVerdict(oom_kill=OomKill.NO, evidence=f"kernel log has no kill of process {pid}")
        if now > before:
            evidence = f"{self._counter_file}: oom_kill rose from {before} to {now}"
            return OomVerdict(oom_kill=OomKill.YES, evidence=evidence)
        return OomVerdict(oom_kill=OomKill.NO, evidence=f"{self._counter_file}: oom_kill unchanged at {now}")

    def close(self) -> None:
        """Close the kernel log."""
        if self._kmsg is not None:
            os.close(self._kmsg)
            self._kmsg = None

    def _read_counter(self) -> int | None:
        if self._counter_file is None:
            return None
        try:
            text = self._counter_file.read_text()
        except OSError:  # no cgroup any more: unknown, not zero
            return None
        for line in text.splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill" and value.strip().isdigit():
                return int(value)
        return None

    def _read_log(self) -> None:
        for _ in range(_KMSG_RECORDS_MAX):
            if self._kmsg is None or not pids_are_the_kernels():
                return
            try:
                record = os.read(self._kmsg, 8192)
            except BlockingIOError:
                return
            except BrokenPipeError:  # records were overwritten before we read them; the next read goes on
                continue
            except OSError:
                self.close()
                return
            found = _KILLED.search(record)
            if found is not None:
                self._killed.add(int(found[1]))


def pids_are_the_kernels() -> bool:
    """False inside a container: the kernel log has other pids than ours. 0xEFFFFFFC: include/linux/proc_ns.h."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == 0xEFFFFFFC
    except OSError:
        return False


def _open_log(path: Path) -> int | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # not allowed (dmesg_restrict) or absent: one witness less
        return None
    try:
        os.lseek(fd, 0, os.SEEK_END)
    except OSError:
        os.close(fd)
        return None
    return fd


def find_counter_file() -> Path | None:
    """The file with our memory cgroup's oom_kill counter, or None."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    candidates: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            candidates.append(Path("/sys/fs/cgroup") / path.lstrip("/") / "memory.events")
        elif "memory" in controllers.split(","):
            candidates.append(Path("/sys/fs/cgroup/memory") / path.lstrip("/") / "memory.oom_control")
            candidates.append(Path("/sys/fs/cgroup/memory/memory.oom_control"))
    return next((file for file in candidates if file.is_file()), None)
