"""One fresh job of a contestant: trained until it has a checkpoint, hit by one fault after another, and ended."""

import os
import signal
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from fault_contracts.recovery import PhaseTimes
from recovery_bench.cells import Fault
from recovery_bench.events import EventLog, NotReached, Recovery
from recovery_bench.processes import Started, descendants
from recovery_bench.training import CHECKPOINT_EVERY

TRAINING = str(Path(__file__).with_name("training.py"))
VICTIM = 3
START_LIMIT_S = 240.0
"""Two agents that import all of torch were seen to take 75 s to the first step on two cores with a load of ten."""
RECOVERY_LIMIT_S = 120.0
BEFORE_FAULT_STEPS = 3 * CHECKPOINT_EVERY
"""All ranks run steadily and there is a checkpoint to resume from."""

COMMON_ENV = {
    # As torchrun sets it for several ranks on a node, and said here so that nobody prints a notice about it.
    "OMP_NUM_THREADS": "1",
    # Everything is on this machine: gloo must not look up the host's name.
    "GLOO_SOCKET_IFNAME": "lo",
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measured recovery, with what else is known of it."""

    recovery: Recovery
    phases: PhaseTimes | None = None
    load: float = 0.0


class Job(ABC):
    """One job in one folder; `end` leaves nothing of it."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.started = Started(folder)
        self.log = EventLog(folder)
        self._hits = 0
        self._back_s = 0.0

    @abstractmethod
    async def start(self) -> None:
        """Start the agents."""

    @abstractmethod
    async def prepare(self, fault: Fault) -> None:
        """What a contestant needs for a fault beyond a job that trains: a spare, say."""

    @abstractmethod
    async def lose_node(self, agent: int) -> float:
        """Take a node: the one of rank 3, whose agent this is, unless the contestant cannot lose that; returns when."""

    async def phases(self) -> PhaseTimes | None:
        """What the contestant itself says of the recovery that was just measured."""
        return None

    async def hit(self, fault: Fault, *, limit_s: float = RECOVERY_LIMIT_S) -> Run:
        """One fault, and the wait for the first step of all ranks after it.

        Raises:
            NotReached: it did not train before, or not again in time.
        """
        await self.log.until(
            lambda: self.log.all_did(BEFORE_FAULT_STEPS, self._back_s), "training before the fault", START_LIMIT_S
        )
        await self.prepare(fault)
        load = os.getloadavg()[0]
        fault_s = await self._strike(fault)
        await self.log.until(lambda: self.log.recovery(fault_s) is not None, f"recovery from {fault}", limit_s)
        recovery = self.log.recovery(fault_s)
        assert recovery is not None, "waited for"
        self._back_s = fault_s + recovery.first_step_s
        return Run(recovery=recovery, phases=await self.phases(), load=load)

    def end(self) -> None:
        """End everything."""
        self.log.close()
        self.started.end()

    async def _strike(self, fault: Fault) -> float:
        self._hits += 1
        victim = self.log.newest_pid(VICTIM)
        match fault:
            case Fault.KILL | Fault.STOP:
                fault_s = time.monotonic()
                os.kill(victim, signal.SIGKILL if fault is Fault.KILL else signal.SIGSTOP)
                return fault_s
            case Fault.RAISE:
                asked_s = time.monotonic()
                (self.folder / f"raise_{VICTIM}").write_text("ABCDEFGH"[self._hits % 8], encoding="ascii")
                await self.log.until(lambda: self.log.raised_after(asked_s) is not None, "the exception", 10.0)
                raised_s = self.log.raised_after(asked_s)
                assert raised_s is not None, "waited for"
                return raised_s
            case Fault.NODE:
                return await self.lose_node(self._agent_of(victim))

    def _agent_of(self, rank_pid: int) -> int:
        for process in self.started.running:
            if rank_pid in descendants(process.pid):
                return process.pid
        raise NotReached("the agent of the rank is not known: it is no ancestor of it")
