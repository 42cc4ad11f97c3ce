"""torchrun, NVRx's ft_launcher, and the floor. How each is started, and with which settings, and why these."""

import asyncio
import json
import os
import socket
import sys
import time
from pathlib import Path

from recovery_bench.cells import Cell, Fault, group_timeout_s
from recovery_bench.events import EventLog, NotReached
from recovery_bench.job import BEFORE_FAULT_STEPS, COMMON_ENV, START_LIMIT_S, TRAINING, Job, Run
from recovery_bench.processes import Started

TORCHRUN_ENV = {
    # torch 2.13 keeps one TCPStore for the rendezvous and all generations of workers. After a restart with two agents
    # the workers meet keys of the generation before and fail again: 3 of 5 kills did not recover within a minute when
    # it was measured. With this variable each generation gets its own store, and torchrun recovers every time. Without
    # it the comparison would be with a defect, not with a design.
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
}
RENDEZVOUS = (
    # Two agents with two ranks each, as Phalanx has; c10d is torchrun's recommended rendezvous and needs no server.
    *("--nnodes", "2", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-id", "bench"),
    # Restarts are on (0 is the default: it would not recover at all). Every other setting is the launcher's default:
    # the ranks are watched every 0.1 s, and no shorter time-out changes what happens after a kill.
    *("--max-restarts", "100"),
)
FT_ARGUMENTS = (
    # Its time-outs are off by default, and a hang is then never seen. 5 s is what torchrun gets for the same fault.
    *("--ft-initial-rank-heartbeat-timeout", "60", "--ft-rank-heartbeat-timeout", "5"),
)


class TorchrunJob(Job):
    """Two agents; a lost one is replaced at once by one that starts afresh."""

    def __init__(self, folder: Path, cell: Cell) -> None:
        super().__init__(folder)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        self._limit_s = group_timeout_s(cell)
        self._agents = 0

    async def start(self) -> None:
        """Both agents. The second waits until the first hosts the store: it must be known which one can be lost."""
        self._start_agent()
        await self.log.until(lambda: _listens(self._port), "the rendezvous store", START_LIMIT_S)
        self._start_agent()

    async def prepare(self, fault: Fault) -> None:
        """Nothing: a replacement starts when a node is lost."""

    async def lose_node(self, agent: int) -> float:
        """The node that does not host the store (losing that one ends the job), with its ranks; replaced at once."""
        del agent
        fault_s = time.monotonic()
        # The ranks would outlive their agent.
        self.started.kill(self.started.running[-1].pid, descendants_too=True)
        self._start_agent()
        return fault_s

    def _start_agent(self) -> None:
        self._agents += 1
        argv = [
            *self.launcher(),
            *RENDEZVOUS,
            "--rdzv-endpoint",
            f"127.0.0.1:{self._port}",
            *self.arguments(),
            TRAINING,
        ]
        limit = {} if self._limit_s is None else {"BENCH_GROUP_TIMEOUT_S": f"{self._limit_s:g}"}
        self.started.start(f"agent{self._agents}", argv, {**COMMON_ENV, **self.environment(), **limit})

    def launcher(self) -> list[str]:
        """The program."""
        return [sys.executable, "-m", "torch.distributed.run"]

    def arguments(self) -> list[str]:
        """Beyond the rendezvous."""
        return ["--local-addr", "127.0.0.1"]

    def environment(self) -> dict[str, str]:
        """Of agents and ranks."""
        return TORCHRUN_ENV


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class FtLauncherJob(TorchrunJob):
    """NVRx: the same, with its own launcher and its heartbeat in the training function."""

    def __init__(self, folder: Path, cell: Cell, *, python: str) -> None:
        super().__init__(folder, cell)
        self._python = python

    def launcher(self) -> list[str]:
        """From the virtual environment of its own."""
        return [self._python, "-m", "nvidia_resiliency_ext.fault_tolerance.launcher"]

    def arguments(self) -> list[str]:
        """Its second agent must have an address of its own."""
        return ["--local-addr", f"127.0.0.{self._agents}", *FT_ARGUMENTS]

    def environment(self) -> dict[str, str]:
        """With the heartbeat on."""
        return {**TORCHRUN_ENV, "BENCH_NVRX": "1"}


class Floor:
    """The prepared parent; started once, because it stands for what is there before the fault."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._started = Started(folder)
        argv = [sys.executable, str(Path(__file__).with_name("floor.py"))]
        self._parent = self._started.start("floor", argv, COMMON_ENV, piped=True)
        self._prepared = False

    async def run(self) -> Run:
        """One start of four ranks; the checkpoint is there from the second run on, as after a fault."""
        if not self._prepared:
            await self._read()
            self._prepared = True
        log = EventLog(self._folder)
        try:
            load = os.getloadavg()[0]
            self._ask()
            started_s = float((await self._read())["at_s"])
            await log.until(lambda: log.recovery(started_s) is not None, "the floor's first step", START_LIMIT_S)
            recovery = log.recovery(started_s)
            assert recovery is not None, "waited for"
            await log.until(lambda: log.all_did(BEFORE_FAULT_STEPS, started_s), "the floor's checkpoint", START_LIMIT_S)
            self._ask()
            await self._read()
            return Run(recovery=recovery, load=load)
        finally:
            log.close()

    def end(self) -> None:
        """End the parent and its ranks."""
        self._started.end()

    def _ask(self) -> None:
        assert self._parent.stdin is not None, "piped"
        self._parent.stdin.write(b"\n")
        self._parent.stdin.flush()

    async def _read(self) -> dict[str, float]:
        assert self._parent.stdout is not None, "piped"
        # In a thread: `end` closes the pipe by ending the parent, and so ends the thread as well.
        line = await asyncio.to_thread(self._parent.stdout.readline)
        if not line:
            raise NotReached(f"the floor's parent ended: see {self._folder / 'floor.log'}")
        return json.loads(line)
