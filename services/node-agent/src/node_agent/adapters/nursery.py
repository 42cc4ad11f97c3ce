"""The agent's side of the nursery: start it, order forks, hear of deaths, notice when it is gone.

The protocol is worker_link.nursery's. The nursery is replaceable: whoever uses this falls back to spawn on
`NurseryError` and on the lost callback.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import IO, Any

from node_agent.adapters.process_sweep import send
from node_agent.application.ports import StandbyReport
from worker_link.bootstrap import STUB
from worker_link.frames import FrameError, FrameReader, encode
from worker_link.nursery import CONTROL_FRAME_BYTES_MAX

READY_TIME_S_MAX = 180.0
"""Importing torch from a cold network file system takes minutes; past this, spawn is no slower."""
FORK_TIME_S_MAX = 10.0
"""A fork takes 10 ms; a nursery that needs seconds is stuck."""


class NurseryError(Exception):
    """The nursery cannot serve: not started, gone, stuck, or it refused the order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitStatus:
    """What wait4 said about one worker."""

    exit_code: int | None = None
    signal: int | None = None
    core_dumped: bool = False
    max_rss_bytes: int | None = None


class NurseryClient:
    """One nursery process. Not restartable: make a new one."""

    def __init__(
        self,
        *,
        python: str = sys.executable,
        preload: Sequence[str],
        stderr: IO[bytes] | int = subprocess.DEVNULL,
        on_exited: Callable[[int, ExitStatus], None],
        on_lost: Callable[[str], None],
    ) -> None:
        self._python = python
        self._preload = tuple(preload)
        self._stderr = stderr
        self._on_exited = on_exited
        self._on_lost = on_lost
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._reader = FrameReader(max_bytes=CONTROL_FRAME_BYTES_MAX)
        self._sending = asyncio.Lock()
        self._ids = count(1)
        self._orders: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ready: asyncio.Future[dict[str, Any]] | None = None
        self._lost_reason = ""

    @property
    def pid(self) -> int | None:
        """Pid while it lives."""
        return self._process.pid if self._process is not None and not self._lost_reason else None

    async def start(self, env: Mapping[str, str]) -> StandbyReport:
        """Start and wait until the imports are done.

        Raises:
            NurseryError: it ended, did not get ready in time, or touched CUDA.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            arguments = ["--control-fd", str(theirs.fileno()), "--parent-pid", str(os.getpid())]
            arguments += ["--preload", ",".join(self._preload)]
            try:
                self._process = subprocess.Popen(  # noqa: ASYNC220  vfork and exec, 2 ms; its pid must be ours at once
                    [self._python, "-c", STUB.format(module="nursery"), *arguments],
                    env=dict(env),
                    stdin=subprocess.DEVNULL,
                    stdout=self._stderr,
                    stderr=self._stderr,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                self._lost_reason = f"{self._python} cannot be started: {error.strerror}"
                raise NurseryError(self._lost_reason) from error
        ours.settimeout(0)
        self._socket = ours
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        loop.add_reader(ours, self._receive)
        try:
            ready = await asyncio.wait_for(self._ready, READY_TIME_S_MAX)
        except TimeoutError:
            self.kill(f"not ready after {READY_TIME_S_MAX:.0f} s")
            raise NurseryError(self._lost_reason) from None
        if ready.get("cuda_initialized"):
            self.kill("a preloaded module initialised CUDA, which does not survive a fork")
            raise NurseryError(self._lost_reason)
        failed = {str(name): str(reason) for name, reason in dict(ready.get("failed", {})).items()}
        return StandbyReport(
            ready=True,
            pid=self._process.pid,
            preloaded=tuple(ready.get("preloaded", ())),
            failed_preloads=failed,
            took_s=float(ready.get("took_s", 0.0)),
            notice="; ".join(f"preload {name} failed ({reason})" for name, reason in failed.items()),
        )

    async def fork(self, order: Mapping[str, Any], fds: Sequence[int]) -> tuple[int, int]:
        """Order a fork; the descriptors stay the caller's.

        Returns:
            pid and start_ticks.

        Raises:
            NurseryError: gone, stuck, or refused.
        """
        if self._socket is None or self._lost_reason:
            raise NurseryError(self._lost_reason or "not started")
        order_id = next(self._ids)
        try:
            frame = encode({"type": "fork", "id": order_id, **order}, max_bytes=CONTROL_FRAME_BYTES_MAX)
        except FrameError as error:
            raise NurseryError(f"the order does not fit: {error}") from error
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._orders[order_id] = answer
        try:
            async with asyncio.timeout(FORK_TIME_S_MAX):
                async with self._sending:
                    await self._send_whole(frame, fds)
                reply = await answer
        except TimeoutError:
            self.kill(f"no answer to a fork order in {FORK_TIME_S_MAX:.0f} s")
            raise NurseryError(self._lost_reason) from None
        except OSError as error:
            self._lose(f"control socket: {error}")
            raise NurseryError(self._lost_reason) from error
        finally:
            self._orders.pop(order_id, None)
        if reply.get("type") != "forked":
            raise NurseryError(str(reply.get("reason", "refused")))
        return int(reply["pid"]), int(reply["start_ticks"])

    async def _send_whole(self, frame: bytes, fds: Sequence[int]) -> None:
        try:
            await self._send(frame, fds)
        except asyncio.CancelledError:
            # Only when its buffer was full: half a frame may be out, and nothing after it could be understood.
            self.kill("an order was interrupted half-way")
            raise

    async def _send(self, frame: bytes, fds: Sequence[int]) -> None:
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        while True:
            try:
                # The descriptors travel with the first bytes of the frame.
                sent = socket.send_fds(self._socket, [frame], list(fds))
                break
            except BlockingIOError:
                await _writable(loop, self._socket)
        if sent < len(frame):
            await loop.sock_sendall(self._socket, frame[sent:])

    def kill(self, reason: str) -> None:
        """End it with everything below it; reported through the lost callback."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
        self._lose(reason)

    def close(self, *, wait_s: float = 3.0) -> None:
        """End it: closing the control socket makes it kill its descendants and leave. No lost callback."""
        self._lost_reason = self._lost_reason or "closed"
        self._drop_socket()
        if self._process is None:
            return
        try:
            self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(1.0)

    def _receive(self) -> None:
        assert self._socket is not None
        try:
            data = self._socket.recv(65536)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(f"control socket: {error}")
            return
        if not data:
            self._lose("it ended")
            return
        self._reader.receive_data(data)
        try:
            while (message := self._reader.next_message()) is not None:
                self._handle(message)
        except (FrameError, KeyError, TypeError, ValueError) as error:
            self.kill(f"it sent nonsense: {error}")

    def _handle(self, message: dict[str, Any]) -> None:
        match message.get("type"):
            case "ready":
                if self._ready is not None and not self._ready.done():
                    self._ready.set_result(message)
            case "forked" | "fork_failed":
                order = self._orders.get(message["id"])
                if order is not None and not order.done():
                    order.set_result(message)
                elif message["type"] == "forked":
                    # Whoever ordered it has been cancelled meanwhile: nobody would ever stop it.
                    send(int(message["pid"]), signal.SIGKILL)
            case "exited":
                rss = message.get("max_rss_kib")
                status = ExitStatus(
                    exit_code=message["exit_code"],
                    signal=message["signal"],
                    core_dumped=bool(message["core"]),
                    max_rss_bytes=int(rss) * 1024 if rss is not None else None,
                )
                self._on_exited(int(message["pid"]), status)
            case other:
                raise ValueError(f"unexpected message {other!r}: {str(message.get('reason', ''))[:200]}")

    def _lose(self, reason: str) -> None:
        if self._lost_reason:
            return
        code = self._process.poll() if self._process is not None else None
        self._lost_reason = reason if code is None else f"{reason} (status {code})"
        self._drop_socket()
        error = NurseryError(self._lost_reason)
        for future in (*self._orders.values(), *([self._ready] if self._ready is not None else [])):
            if not future.done():
                future.set_exception(error)
                future.exception()  # marks it as seen; a waiter gets it all the same
        self._on_lost(self._lost_reason)

    def _drop_socket(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._socket = None


async def _writable(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(sock, _settle, ready)
    try:
        await ready
    finally:
        loop.remove_writer(sock)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
