"""Starts a child so that it cannot outlive the run, and ends it for certain.

Every child is the leader of its own session: Ctrl-C in the terminal reaches the stack alone, which then stops its
children in order. Ends are seen through a pidfd, never by polling.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from phalanx_cli.stack.errors import StackError
from phalanx_cli.stack.identity import ProcessIdentity, identify, pidfd_ended

LOG_BYTES_MAX = 8 * 1024 * 1024
"""A log larger than this is set aside as `.1` at the next start; two generations bound what a stack leaves behind."""

KILL_WAIT_S = 5.0
"""SIGKILL takes effect at once unless the process hangs in the kernel; after this long that is the news."""

_EXEC_GUARD = Path(__file__).with_name("exec_guard.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSpec:
    """What to run. `env` is the whole environment; none inherits ours."""

    name: str
    argv: tuple[str, ...]
    log_path: Path
    env: Mapping[str, str] | None = None
    dies_with_parent: bool = True


class GuardedProcess:
    """One child: started by the constructor, ended by `stop`, `stop_async` or `kill`.

    Raises:
        StackError: the log cannot be written or the process cannot be forked.
    """

    def __init__(self, spec: ProcessSpec) -> None:
        self.spec = spec
        argv = list(spec.argv)
        if spec.dies_with_parent:
            argv = [sys.executable, "-I", "-S", str(_EXEC_GUARD), str(os.getpid()), *argv]
        try:
            self.log_offset = _make_room(spec.log_path)
            with spec.log_path.open("ab") as log:
                self._popen = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=None if spec.env is None else dict(spec.env),
                    start_new_session=True,
                )
        except OSError as error:
            raise StackError(f"{spec.name} cannot be started: {error}") from error
        self.pid = self._popen.pid
        self._pidfd: int | None = os.pidfd_open(self.pid)
        self.identity: ProcessIdentity | None = identify(self.pid)

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; none while it runs."""
        if self._pidfd is not None and pidfd_ended(self._pidfd, 0):
            self._reap()
        return self._popen.returncode

    @property
    def ending(self) -> str:
        """How it ended, for people: `exit code 3`, `SIGKILL`, or `running`."""
        code = self.returncode
        if code is None:
            return "running"
        if code >= 0:
            return f"exit code {code}"
        try:
            return signal.Signals(-code).name
        except ValueError:  # a real-time signal has no name
            return f"signal {-code}"

    async def wait(self) -> int:
        """Wait until the process has ended and return its exit code."""
        if self._pidfd is not None:
            loop = asyncio.get_running_loop()
            ended = asyncio.Event()
            # A descriptor of its own: a loop knows one reader for each descriptor, and there may be several waiters.
            pidfd = os.dup(self._pidfd)
            try:
                loop.add_reader(pidfd, ended.set)
                await ended.wait()
            finally:
                loop.remove_reader(pidfd)
                os.close(pidfd)
        code = self.returncode
        assert code is not None, "a readable pidfd means that the process has ended"
        return code

    def terminate(self) -> None:
        """Send SIGTERM; nothing happens when it has ended."""
        self._send(signal.SIGTERM)

    def kill(self) -> None:
        """End it and its whole session group with SIGKILL and reap it."""
        if self._pidfd is None:
            return
        self._send(signal.SIGKILL)
        if not pidfd_ended(self._pidfd, KILL_WAIT_S):
            raise StackError(f"{self.spec.name} (pid {self.pid}) does not react to SIGKILL: it hangs in the kernel")
        self._reap()

    def stop(self, grace_s: float) -> None:
        """SIGTERM, wait up to `grace_s`, then SIGKILL. Blocks."""
        self.terminate()
        if self._pidfd is not None:
            pidfd_ended(self._pidfd, grace_s)
        self.kill()

    async def stop_async(self, grace_s: float) -> None:
        """Like `stop` without blocking the loop; cancelled, it kills at once."""
        self.terminate()
        try:
            await asyncio.wait_for(self.wait(), grace_s)
        except TimeoutError:
            # The grace is over; `kill` below is the answer.
            pass
        finally:
            self.kill()

    def release(self) -> None:
        """Let it live on without us: for a child that is not tied to its parent. Not watched or stopped any more."""
        assert not self.spec.dies_with_parent, "a tied child dies with us, whatever is said here"
        if self._pidfd is not None:
            os.close(self._pidfd)
            self._pidfd = None
        # Popen warns of a child that was never waited for, which is the purpose here.
        self._popen.returncode = 0

    def _send(self, signum: signal.Signals) -> None:
        if self._pidfd is None:
            return
        try:
            signal.pidfd_send_signal(self._pidfd, signum)
        except ProcessLookupError:
            # It ended by itself meanwhile, which is what the signal was for.
            pass

    def _reap(self) -> None:
        """End what is left of its group, then reap.

        In this order, because only while the zombie holds the pid is the group surely ours.
        """
        assert self._pidfd is not None
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            # No group left, or only members that changed their user.
            pass
        self._popen.wait()
        os.close(self._pidfd)
        self._pidfd = None


def _make_room(log_path: Path) -> int:
    """Create the log's folder, set an oversized log aside and return the log's size in bytes."""
    log_path.parent.mkdir(parents=True, exist_ok=True)
    size_bytes = log_path.stat().st_size if log_path.exists() else 0
    if size_bytes <= LOG_BYTES_MAX:
        return size_bytes
    log_path.replace(log_path.with_name(log_path.name + ".1"))
    return 0
