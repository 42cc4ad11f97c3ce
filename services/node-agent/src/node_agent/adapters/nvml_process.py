"""The agent's end of the process that asks NVML: starts it, asks it with a limit, and leaves it when it hangs.

A process that waits in the driver in an uninterruptible sleep outlives its SIGKILL. It is left, counted, and looked
after until it ends; no more than CHILDREN_LEFT_MAX of them are ever there.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from node_agent.domain.nvml_access import CHILDREN_LEFT_MAX
from service_kit.logging import get_logger
from worker_link.frames import FrameError, FrameReader, encode

MAX_FRAME_BYTES = 256 * 1024
"""As in nvml_child.py."""
DIES_WITHIN_S = 1.0
"""A killed process that is not in the driver is gone in milliseconds."""
_POLL_S = 0.02

log = get_logger(__name__)


class ChildGone(Exception):
    """It ended, or said what cannot be read."""


class Children:
    """Processes that were killed and did not die. Shared by all that start children of this kind."""

    def __init__(self) -> None:
        self._left: list[subprocess.Popen[bytes]] = []

    @property
    def left(self) -> int:
        """How many are still there."""
        self._left = [child for child in self._left if child.poll() is None]
        return len(self._left)

    @property
    def may_start(self) -> bool:
        """One more could be left behind."""
        return self.left < CHILDREN_LEFT_MAX

    def leave(self, child: subprocess.Popen[bytes]) -> None:
        """It did not die in time."""
        self._left.append(child)
        log.error("nvml_child_left", pid=child.pid, left=self.left)


class NvmlProcess:
    """One child. Not for two askers at a time."""

    def __init__(self, children: Children, *, arguments: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self._children = children
        self._arguments = tuple(arguments)
        self._env = env
        self._process: subprocess.Popen[bytes] | None = None
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._frames = FrameReader(max_bytes=MAX_FRAME_BYTES)

    @property
    def pid(self) -> int | None:
        """Of the living child."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    async def start(self) -> None:
        """Start it, in the place of one that ended.

        Raises:
            OSError: the machine has no process or no descriptor left.
        """
        if self._process is not None:
            log.warning("nvml_child_ended", pid=self._process.pid, status=self._process.poll())
            await self.end()
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "node_agent.adapters.nvml_child", "--parent", str(os.getpid())]
        try:
            self._process = subprocess.Popen(  # noqa: ASYNC220 - it waits for the exec only, some milliseconds
                [*command, *self._arguments], stdin=theirs.fileno(), stdout=subprocess.DEVNULL, env=self._env
            )
            self._stream = await asyncio.open_unix_connection(sock=ours)
        except BaseException:
            ours.close()
            await self.end()
            raise
        finally:
            theirs.close()

    async def send(self, message: Mapping[str, Any]) -> None:
        """Ask.

        Raises:
            ChildGone: nobody is there.
        """
        if self._stream is None:
            raise ChildGone("the process that asks NVML is not running")
        writer = self._stream[1]
        try:
            writer.write(encode(message, max_bytes=MAX_FRAME_BYTES))
            await writer.drain()
        except OSError as error:
            raise ChildGone(f"the process that asks NVML ended{self._exit_words()}: {error}") from error

    async def receive(self, *, limit_s: float) -> dict[str, Any]:
        """The next frame.

        Raises:
            TimeoutError: none came in time.
            ChildGone: the process ended, or what it sent is no frame.
        """
        if self._stream is None:
            raise ChildGone("the process that asks NVML is not running")
        async with asyncio.timeout(limit_s):
            try:
                while (message := self._frames.next_message()) is None:
                    data = await self._stream[0].read(65_536)
                    if not data:
                        raise ChildGone(f"the process that asks NVML ended{self._exit_words()}")
                    self._frames.receive_data(data)
            except FrameError as error:
                raise ChildGone(f"the process that asks NVML sent what cannot be read: {error}") from error
            except OSError as error:
                raise ChildGone(f"the process that asks NVML ended{self._exit_words()}: {error}") from error
        return message

    async def end(self) -> None:
        """Kill it, and leave it behind when it does not die."""
        process, stream = self._process, self._stream
        self._process = self._stream = None
        self._frames = FrameReader(max_bytes=MAX_FRAME_BYTES)
        if stream is not None:
            stream[1].close()
        if process is None:
            return
        process.kill()
        waited_s = 0.0
        try:
            while process.poll() is None and waited_s < DIES_WITHIN_S:
                await asyncio.sleep(_POLL_S)
                waited_s += _POLL_S
        finally:
            if process.poll() is None:
                self._children.leave(process)

    def _exit_words(self) -> str:
        if self._process is None:
            return ""
        try:
            status = self._process.wait(timeout=DIES_WITHIN_S)
        except subprocess.TimeoutExpired:
            return ""
        return f" with exit code {status}" if status >= 0 else f" by signal {-status}"
