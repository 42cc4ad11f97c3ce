"""Measures the chosen cells in rounds: in each a fresh job of every contestant, hit by one fault after another."""

import asyncio
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path

from recovery_bench.cells import Cell, Fault, Name, group_timeout_s
from recovery_bench.contestants import Floor, FtLauncherJob, TorchrunJob
from recovery_bench.events import NotReached
from recovery_bench.job import RECOVERY_LIMIT_S, Job, Run
from recovery_bench.nvrx import NotInstalled, python_with_nvrx
from recovery_bench.phalanx_job import PhalanxJob, PhalanxServers

FAILED = Path(".bench/failed")
"""Logs of jobs that did not start or did not recover."""
STOP_LIMIT_S = 60.0
"""For Phalanx: a hang that is not seen by then is seen by nothing but gloo's own 30 minutes."""


class Rounds:
    """What was measured, and why something was not.

    Attributes:
        runs: recoveries by cell, in the order of the rounds.
        missing: cells without a figure, and the reason.
        failures: runs that did not recover, in words.
    """

    def __init__(self, cells: tuple[Cell, ...], folder: Path, say: Callable[[str], None]) -> None:
        self._cells = list(cells)
        self._folder = folder
        self._say = say
        self._nvrx = ""
        self.runs: dict[Cell, list[Run]] = defaultdict(list)
        self.missing: dict[Cell, str] = {}
        self.failures: list[str] = []

    async def measure(self, rounds: int) -> None:
        """All rounds. However this is left, nothing of it goes on."""
        async with AsyncExitStack() as exits:
            self._servers = PhalanxServers(self._folder / "stack")
            if self._of(Name.PHALANX) or self._of(Name.IN_PROCESS):
                await exits.enter_async_context(self._servers)
            if self._of(Name.FT_LAUNCHER):
                await self._install_nvrx()
            floor = None
            if self._of(Name.FLOOR):
                floor = Floor(self._folder / "floor")
                exits.callback(floor.end)
                await floor.run()  # its checkpoint is written here; not counted
            for number in range(1, rounds + 1):
                for together in _jobs(self._cells):
                    await self._job(number, together)
                if floor is not None:
                    self._keep(number, Cell(name=Name.FLOOR, fault=Fault.KILL), await floor.run())

    async def _install_nvrx(self) -> None:
        try:
            self._nvrx = await python_with_nvrx()
        except NotInstalled as error:
            for cell in self._of(Name.FT_LAUNCHER):
                self._give_up(cell, f"it could not be installed: {error}")

    async def _job(self, number: int, cells: list[Cell]) -> None:
        """One job; a fault that it does not survive ends it, and with it what was to follow in this round."""
        folder = self._folder / f"{cells[0].name}-{cells[0].fault}-{number}"
        kept = FAILED / folder.name
        job = self._make(cells[0], folder)
        try:
            await job.start()
            for cell in cells:
                hang_of_ours = cell.fault is Fault.STOP and cell.name in (Name.PHALANX, Name.IN_PROCESS)
                limit_s = STOP_LIMIT_S if hang_of_ours else RECOVERY_LIMIT_S
                try:
                    self._keep(number, cell, await job.hit(cell.fault, limit_s=limit_s))
                except NotReached as error:
                    self.failures.append(f"{cell.name} {cell.fault}, round {number}: {error}; logs: {kept}")
                    self._say(f"{cell.name:11} {cell.fault:5} round {number}: {error}; logs: {kept}")
                    # Before the job is ended, which would be the last line of every log.
                    await asyncio.to_thread(self._keep_logs, folder, kept)
                    if cell.fault is Fault.STOP or not self.runs[cell]:
                        self._give_up(cell, str(error))
                    return
        finally:
            job.end()

    def _keep_logs(self, folder: Path, kept: Path) -> None:
        shutil.rmtree(kept, ignore_errors=True)
        for source, target in ((folder, kept), (self._folder / "stack" / "logs", kept / "servers")):
            for path in source.rglob("*"):
                if path.suffix in (".log", ".jsonl"):
                    to = target / path.relative_to(source)
                    to.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(path, to)

    def _make(self, cell: Cell, folder: Path) -> Job:
        match cell.name:
            case Name.TORCHRUN:
                return TorchrunJob(folder, cell)
            case Name.FT_LAUNCHER:
                return FtLauncherJob(folder, cell, python=self._nvrx)
            case Name.PHALANX | Name.IN_PROCESS:
                return PhalanxJob(folder, self._servers, block=cell.name is Name.IN_PROCESS)
            case Name.FLOOR:
                raise AssertionError("the floor is no job")

    def _keep(self, number: int, cell: Cell, run: Run) -> None:
        self.runs[cell].append(run)
        self._say(f"{cell.name:11} {cell.fault:5} round {number}: {run.recovery.first_step_s:.3f} s")

    def _give_up(self, cell: Cell, reason: str) -> None:
        """Not again in later rounds."""
        self._cells = [each for each in self._cells if each != cell]
        if not self.runs[cell]:
            self.missing[cell] = reason

    def _of(self, name: Name) -> list[Cell]:
        return [cell for cell in self._cells if cell.name is name]


def _jobs(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Cells that share a job: of one contestant, with the same time-out of the process group."""
    jobs: dict[tuple[Name, float | None], list[Cell]] = defaultdict(list)
    for cell in cells:
        if cell.name is not Name.FLOOR:
            jobs[cell.name, group_timeout_s(cell)].append(cell)
    return list(jobs.values())
