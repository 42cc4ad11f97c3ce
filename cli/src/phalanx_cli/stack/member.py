"""One process of the stack: write what it reads, spawn it, wait until it answers, start it again after its end.

Start is written once, as a generator of waits, and driven by a blocking loop (tests, scripts) or by asyncio (the
stack). Both spawn in the calling thread, see `exec_guard`.
"""

import abc
import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

from phalanx_cli.stack.errors import StackError, log_tail, with_log_tail
from phalanx_cli.stack.guard import GuardedProcess, ProcessSpec
from phalanx_cli.stack.state import MemberRecord

STOP_GRACE_S = 5.0
"""The servers end in milliseconds on SIGTERM; a service drains its subscriptions first."""

PORT_TRIES_MAX = 5
"""Starts on a port that somebody took between our choice and the server's bind."""

_FIRST_WAIT_S = 0.005
_LONGEST_WAIT_S = 0.1


class StackMember(abc.ABC):
    """A process that belongs to a stack. Not for two tasks at once: one owner starts, stops and restarts it."""

    def __init__(self, *, name: str, log_path: Path, start_timeout_s: float) -> None:
        self.name = name
        self.log_path = log_path.absolute()
        self.start_timeout_s = start_timeout_s
        self.process: GuardedProcess | None = None

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self.process is not None, f"{self.name} was never started"
        return self.process.pid

    @abc.abstractmethod
    def record(self) -> MemberRecord:
        """What the state file says about it."""

    def start(self) -> None:
        """Start and block until it answers.

        Raises:
            StackError: it ended, or did not answer in `start_timeout_s`; its last log lines are quoted.
        """
        try:
            for wait_s in self._start_steps():
                time.sleep(wait_s)
        except BaseException:
            self.kill()
            raise

    async def start_async(self) -> None:
        """Like `start` without blocking the loop."""
        try:
            for wait_s in self._start_steps():
                await asyncio.sleep(wait_s)
        except BaseException:
            self.kill()
            raise

    def restart(self) -> None:
        """Stop it if it runs and start it again on the same port and data."""
        self.stop()
        self.start()

    def stop(self, grace_s: float = STOP_GRACE_S) -> None:
        """Stop it in order; blocks."""
        if self.process is not None:
            self.process.stop(grace_s)

    async def stop_async(self, grace_s: float = STOP_GRACE_S) -> None:
        """Stop it in order."""
        if self.process is not None:
            await self.process.stop_async(grace_s)

    def kill(self) -> None:
        """SIGKILL, as a crash does it."""
        if self.process is not None:
            self.process.kill()

    def _start_steps(self) -> Iterator[float]:
        """Yield the seconds to wait between looks; return when it answers."""
        assert self.process is None or self.process.returncode is not None, f"{self.name} runs already"
        deadline = time.monotonic() + self.start_timeout_s
        for tries in range(1, PORT_TRIES_MAX + 1):
            process = self.process = self._spawn()
            wait_s = _FIRST_WAIT_S
            while process.returncode is None:
                if self._answers():
                    return
                if time.monotonic() > deadline:
                    sentence = f"{self.name} did not answer within {self.start_timeout_s:g} s of its start"
                    raise with_log_tail(sentence, self.log_path, from_offset=process.log_offset)
                yield wait_s
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
            lost_port = self._lost_port(log_tail(self.log_path, from_offset=process.log_offset))
            if not lost_port or tries == PORT_TRIES_MAX:
                sentence = f"{self.name} ended before it was ready ({process.ending})"
                raise with_log_tail(sentence, self.log_path, from_offset=process.log_offset)

    def _spawn(self) -> GuardedProcess:
        try:
            spec = self._prepare()
        except OSError as error:
            raise StackError(f"{self.name} cannot use its data folder: {error}") from error
        return GuardedProcess(spec)

    @abc.abstractmethod
    def _prepare(self) -> ProcessSpec:
        """Write what the process reads at its start and return how to run it."""

    @abc.abstractmethod
    def _answers(self) -> bool:
        """Return whether it is ready now; sets the port where the process chose it."""

    def _lost_port(self, tail: str) -> bool:
        """Return whether the log of a failed start says that our choice of port was taken."""
        del tail  # a member that binds no port of our choice cannot lose one
        return False
