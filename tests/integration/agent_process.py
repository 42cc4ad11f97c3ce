"""A real agent process for tests: started with flags, its terminal read, ended for certain."""

import asyncio
import os
import signal
import sys
from pathlib import Path


class AgentProcess:
    """`python -m MODULE ...` in a folder, with stdout and stderr collected together."""

    def __init__(self, argv: list[str], *, cwd: Path, env: dict[str, str] | None = None) -> None:
        self._argv = argv
        self._cwd = cwd
        self._env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", **(env or {})}
        for name in ("NATS_URL", "REDIS_URL"):
            if name not in (env or {}):
                self._env.pop(name, None)
        self.lines: list[str] = []
        self._news = asyncio.Condition()

    async def __aenter__(self) -> "AgentProcess":
        self.process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            *self._argv,
            cwd=self._cwd,
            env=self._env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for raw in self.process.stdout:
            async with self._news:
                self.lines.append(raw.decode(errors="replace").rstrip("\n"))
                self._news.notify_all()

    @property
    def text(self) -> str:
        """Everything said so far."""
        return "\n".join(self.lines)

    @property
    def pid(self) -> int:
        """Pid of the agent."""
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    async def wait_line(self, part: str, *, count: int = 1, timeout_s: float = 60.0) -> str:
        """The count-th line that contains `part`."""

        def found() -> list[str]:
            return [line for line in self.lines if part in line]

        try:
            async with asyncio.timeout(timeout_s), self._news:
                await self._news.wait_for(lambda: len(found()) >= count)
        except TimeoutError:
            raise AssertionError(f"no line with {part!r} ({count}) within {timeout_s} s:\n{self.text}") from None
        return found()[count - 1]

    async def exit_code(self, *, timeout_s: float = 60.0) -> int:
        """Wait for the end."""
        try:
            async with asyncio.timeout(timeout_s):
                code = await self.process.wait()
                await self._reading
        except TimeoutError:
            raise AssertionError(f"still running after {timeout_s} s:\n{self.text}") from None
        return code
