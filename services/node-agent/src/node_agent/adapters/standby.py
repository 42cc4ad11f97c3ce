"""Keeps a nursery at hand: starts it, starts a new one when it dies, and says when workers must be spawned instead."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from node_agent.adapters.nursery import ExitStatus, NurseryClient, NurseryError
from node_agent.application.ports import StandbyReport

RESTARTS_MAX = 3
"""A nursery that dies more often than this has a cause that another start does not remove."""

DEFAULT_PRELOAD = (
    "torch",
    "torch.distributed",
    "torch.nn.parallel",
    "torch.utils.data",
    "torch.optim",
    "torch._dynamo",
)
"""What a DistributedDataParallel script imports up to its first step. torch._dynamo is imported by DDP's constructor or
the first optimiser: 824 modules, 6.2 s on two busy cores, which would fall into every restart otherwise."""


class Standby:
    """The nursery of this node, or the reason why there is none."""

    def __init__(
        self,
        *,
        python: str = sys.executable,
        preload: Sequence[str] = DEFAULT_PRELOAD,
        log_file: Path | None = None,
        on_exited: Callable[[int, ExitStatus], None],
        on_lost: Callable[[str], None],
        notice: Callable[[str], None],
    ) -> None:
        self._python = python
        self._preload = tuple(preload)
        self._log_file = log_file
        self._on_exited = on_exited
        self._on_lost = on_lost
        self._notice = notice
        self._client: NurseryClient | None = None
        self._starting: asyncio.Task[StandbyReport] | None = None
        self._restarting: asyncio.Task[None] | None = None
        self._ready = False
        self._restarts = 0
        self._closed = False

    @property
    def pid(self) -> int | None:
        """Pid of the living nursery."""
        return self._client.pid if self._client is not None else None

    def start(self, env: Mapping[str, str]) -> asyncio.Task[StandbyReport]:
        """Begin to start one; the task's result says whether it is ready, and what to tell. It does not raise."""
        self._starting = asyncio.create_task(self._start(dict(env)), name="nursery-start")
        return self._starting

    async def client(self) -> NurseryClient | None:
        """A ready nursery, after waiting for one that is starting; None: spawn."""
        if self._starting is not None:
            await asyncio.shield(self._starting)
        return self._client if self._ready else None

    def close(self) -> None:
        """End it with all its workers."""
        self._closed = True
        for task in (self._starting, self._restarting):
            if task is not None:
                task.cancel()
        if self._client is not None:
            self._client.close()

    async def _start(self, env: dict[str, str]) -> StandbyReport:
        started_s = asyncio.get_running_loop().time()
        with contextlib.ExitStack() as stack:
            client = NurseryClient(
                python=self._python,
                preload=self._preload,
                stderr=self._open_log(stack),
                on_exited=self._on_exited,
                on_lost=lambda reason: self._lost(reason, env),
            )
            self._client = client
            try:
                report = await client.start(env)
            except NurseryError as error:
                notice = (
                    f"no standby workers: the nursery did not start ({error}); workers are spawned, which is slower"
                )
                took_s = asyncio.get_running_loop().time() - started_s
                return StandbyReport(ready=False, took_s=took_s, notice=notice)
        self._ready = True
        return report

    async def _restart(self, env: dict[str, str]) -> None:
        report = await self._start(env)
        if report.notice:
            self._notice(report.notice)

    def _open_log(self, stack: contextlib.ExitStack) -> IO[bytes] | int:
        if self._log_file is None:
            return subprocess.DEVNULL
        try:
            self._log_file.parent.mkdir(parents=True, exist_ok=True)
            return stack.enter_context(self._log_file.open("ab"))
        except OSError as error:
            self._notice(f"the nursery's log {self._log_file} cannot be written: {error.strerror}")
            return subprocess.DEVNULL

    def _lost(self, reason: str, env: dict[str, str]) -> None:
        self._on_lost(reason)
        if self._closed or not self._ready:
            return  # closing, or lost while starting: _start reports that
        self._ready = False
        self._restarts += 1
        if self._restarts > RESTARTS_MAX:
            self._notice(f"the nursery ended again ({reason}); workers are spawned from now on, which is slower")
            return
        self._notice(f"the nursery ended ({reason}); workers are spawned until a new one is ready")
        # Not `_starting`, which `client` waits for: a start order in this time is served by spawn at once.
        self._restarting = asyncio.create_task(self._restart(env), name="nursery-restart")
