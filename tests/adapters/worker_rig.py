"""ProcessWorkers with its exits collected and scripts at hand, for the tests with real processes."""

from __future__ import annotations

import asyncio
import os
import textwrap
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from node_agent.adapters.terminal import Terminal
from node_agent.adapters.worker_output import rank_files
from node_agent.adapters.worker_processes import ProcessWorkers
from node_agent.application.ports import (
    StandbyReport,
    WorkerExit,
    WorkerSource,
    WorkerSpec,
)
from service_kit.clock import SystemClock
from training_topology.identity import LocalRank, Rank
from worker_link.process_tree import read_process

SOURCES = [WorkerSource.NURSERY, WorkerSource.SPAWN]


class Rig:
    """ProcessWorkers with exits collected and scripts at hand."""

    def __init__(self, workers: ProcessWorkers, folder: Path, terminal_file: Path) -> None:
        self.workers = workers
        self.folder = folder
        self.terminal_file = terminal_file
        self.report = StandbyReport(ready=False)
        self.exits: asyncio.Queue[WorkerExit] = asyncio.Queue()
        workers.on_exit(self.exits.put_nowait)

    def script(self, text: str, name: str = "train.py") -> str:
        (self.folder / name).write_text(textwrap.dedent(text))
        return name

    def spec(self, program: str, *args: str, rank: int = 0, **more: object) -> WorkerSpec:
        fields: dict[str, object] = {
            "rank": Rank(rank),
            "local_rank": LocalRank(rank),
            "topology_version": 1,
            "program": program,
            "args": args,
            "env": {**os.environ, "RANK": str(rank), "PYTHONPATH": str(self.folder)},
            "cwd": self.folder,
            "files": rank_files(self.folder / "logs", "job", 1, rank),
        }
        return WorkerSpec(**{**fields, **more})  # type: ignore[arg-type]

    async def run(self, text: str, *args: str, **more: object) -> WorkerExit:
        await self.workers.start(self.spec(self.script(text), *args, **more))
        return await self.next_exit()

    async def next_exit(self) -> WorkerExit:
        async with asyncio.timeout(20):
            return await self.exits.get()

    async def text_of(self, file: Path, wanted: str = "") -> str:
        """The file once it holds the wanted text."""
        deadline = time.monotonic() + 15
        while True:
            text = read(file)
            if (text and wanted in text) or time.monotonic() > deadline:
                return text
            await asyncio.sleep(0.02)

    def stdout(self, rank: int = 0) -> Path:
        return rank_files(self.folder / "logs", "job", 1, rank).stdout


@asynccontextmanager
async def rig(
    folder: Path, source: WorkerSource, preload: tuple[str, ...] = ("json",), *, ready: bool | None = None
) -> AsyncIterator[Rig]:
    terminal_file = folder / "terminal.txt"
    with terminal_file.open("wb") as file:
        terminal = Terminal(stdout_fd=file.fileno(), stderr_fd=file.fileno())
        workers = ProcessWorkers(
            clock=SystemClock(),
            terminal=terminal,
            standby=source is WorkerSource.NURSERY,
            preload=preload,
            nursery_log=folder / "nursery.log",
        )
        try:
            report = await workers.prepare({**os.environ, "PYTHONPATH": str(folder)})
            assert report.ready is (source is WorkerSource.NURSERY if ready is None else ready), report
            r = Rig(workers, folder, terminal_file)
            r.report = report
            yield r
        finally:
            await workers.close()
            terminal.close()


def read(file: Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""


def alive(pid: int) -> bool:
    row = read_process(pid)
    return row is not None and row.alive


async def gone(pid: int, within_s: float = 3.0) -> bool:
    deadline = time.monotonic() + within_s
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(0.01)
    return True
