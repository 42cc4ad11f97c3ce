"""Looks up in /proc whom a process of the kernel log belongs to, before it is gone.

Reading another process's environment waits for a lock of that process, and one that is stuck in the kernel may hold
it: each look has a thread of its own and a limit.
"""

from __future__ import annotations

import threading
from pathlib import Path

from node_agent.adapters.daemon_calls import DaemonCalls
from node_agent.adapters.oom_evidence import pids_are_the_kernels
from node_agent.domain.process_owner import ProcessOwner, owner_of
from service_kit.logging import get_logger
from service_kit.ports import Clock

LOOK_LIMIT_S = 0.25
LOOKS_MAX = 4
"""Looks that may hang at a time; with as many stuck, pids are not looked up any more."""
CACHE_MAX = 256
CACHED_S = 5.0
"""A storm names the same processes again and again; a pid is not used anew within seconds (pid_max >= 32,768)."""
ENVIRON_BYTES_MAX = 1 << 20
CGROUP_BYTES_MAX = 16 << 10

log = get_logger(__name__)


class ProcOwners:
    """application.watch_kernel_log.ProcessOwners on /proc.

    `same_pids`: the kernel log's pids are ours; None: look whether this process is in the first pid namespace.
    """

    def __init__(self, clock: Clock, *, proc_root: Path = Path("/proc"), same_pids: bool | None = None) -> None:
        self._clock = clock
        self._proc = proc_root
        self._same_pids = pids_are_the_kernels() if same_pids is None else same_pids
        self._calls = DaemonCalls(name="process-owner", limit=LOOKS_MAX)
        self._cache: dict[int, tuple[float, ProcessOwner]] = {}
        if not self._same_pids:
            log.info("pids_not_attributed", reason="in a pid namespace of its own; run the host role with hostPID")

    async def owner(self, pid: int) -> ProcessOwner:
        """What is known of it now; all empty when it is gone or may not be looked at."""
        if not self._same_pids:
            return ProcessOwner()
        now_s = self._clock.monotonic_s()
        until_s, known = self._cache.get(pid, (0.0, ProcessOwner()))
        if now_s < until_s:
            return known
        found = await self._look(pid)
        while len(self._cache) >= CACHE_MAX:
            self._cache.pop(next(iter(self._cache)))
        self._cache[pid] = (now_s + CACHED_S, found)
        return found

    async def _look(self, pid: int) -> ProcessOwner:
        folder = self._proc / str(pid)
        cgroup = _read(folder / "cgroup", CGROUP_BYTES_MAX).decode("utf-8", errors="replace")
        if not cgroup:
            return ProcessOwner()

        def environ(given_up: threading.Event) -> bytes:
            return b"" if given_up.is_set() else _read(folder / "environ", ENVIRON_BYTES_MAX)

        try:
            return owner_of(cgroup, await self._calls.run(environ, limit_s=LOOK_LIMIT_S))
        except (TimeoutError, OSError) as error:
            log.info("environment_not_read", pid=pid, error=str(error) or "no answer in time")
            return owner_of(cgroup)


def _read(path: Path, bytes_max: int) -> bytes:
    """Empty when the process is gone, or its owner is somebody else and we are not root."""
    try:
        with path.open("rb") as file:
            return file.read(bytes_max)
    except OSError:  # the normal case: a process that crashed is gone soon
        return b""
