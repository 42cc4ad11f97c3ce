"""One recovery of torchrun and one of the floor. Every run of torchrun starts a fresh job and ends all of it."""

import json
import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from fault_contracts.recovery import PhaseTimes
from recovery_bench.events import EventLog, NotReached, Recovery
from recovery_bench.processes import Started
from recovery_bench.training import CHECKPOINT_EVERY

TRAINING = str(Path(__file__).with_name("training.py"))
VICTIM = 3
START_LIMIT_S = 120.0
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
TORCHRUN_ENV = {
    # torch 2.13 keeps one TCPStore for the rendezvous and all generations of workers. After a restart with two agents
    # the workers meet keys of the generation before and fail again: 3 of 5 kills did not recover within a minute when
    # it was measured. With this variable each generation gets its own store, and torchrun recovers every time. Without
    # it the comparison would be with a defect, not with a design.
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
}
TORCHRUN_ARGUMENTS = (
    # Two agents with two ranks each, as Phalanx has; c10d is torchrun's recommended rendezvous and needs no server.
    *("--nnodes", "2", "--nproc-per-node", "2", "--rdzv-backend", "c10d", "--rdzv-id", "bench"),
    *("--local-addr", "127.0.0.1"),
    # Restarts are on (0 is the default: it would not recover at all). Every other setting is torchrun's default: the
    # ranks are watched every 0.1 s, and no shorter time-out changes what happens after a kill.
    *("--max-restarts", "100"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measured recovery, with what else is known of it."""

    recovery: Recovery
    phases: PhaseTimes | None = None
    load: float = 0.0


def run_torchrun(folder: Path) -> Run:
    """Two agents, one kill."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        endpoint = f"127.0.0.1:{probe.getsockname()[1]}"
    started = Started(folder)
    try:
        for node in range(2):
            argv = [sys.executable, "-m", "torch.distributed.run", *TORCHRUN_ARGUMENTS, "--rdzv-endpoint", endpoint]
            started.start(f"agent{node}", [*argv, TRAINING], {**COMMON_ENV, **TORCHRUN_ENV})
        recovery, load = kill_and_wait(folder)
        return Run(recovery=recovery, load=load)
    finally:
        started.end()


def kill_and_wait(folder: Path) -> tuple[Recovery, float]:
    """Wait for steady training, kill rank 3, and return the recovery and the load average before the kill."""
    log = EventLog(folder)
    try:
        log.wait(lambda: log.all_reached(BEFORE_FAULT_STEPS, 0.0), "training before the fault", START_LIMIT_S)
        load = os.getloadavg()[0]
        victim = log.newest_pid(VICTIM)
        fault_s = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        log.wait(lambda: log.recovery(fault_s) is not None, "recovery", RECOVERY_LIMIT_S)
        recovery = log.recovery(fault_s)
        assert recovery is not None, "waited for"
        return recovery, load
    finally:
        log.close()


class Floor:
    """The prepared parent; started once, because it stands for what is there before the fault."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._started = Started(folder)
        argv = [sys.executable, str(Path(__file__).with_name("floor.py"))]
        self._parent = self._started.start("floor", argv, COMMON_ENV, piped=True)
        self._read()

    def run(self) -> Run:
        """One start of four ranks; the checkpoint is there from the second run on, as after a fault."""
        log = EventLog(self._folder)
        try:
            load = os.getloadavg()[0]
            self._ask()
            started_s = float(self._read()["at_s"])
            log.wait(lambda: log.recovery(started_s) is not None, "the floor's first step", START_LIMIT_S)
            recovery = log.recovery(started_s)
            assert recovery is not None, "waited for"
            log.wait(lambda: log.all_reached(BEFORE_FAULT_STEPS, 0.0), "the floor's checkpoint", START_LIMIT_S)
            self._ask()
            self._read()
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

    def _read(self) -> dict[str, float]:
        assert self._parent.stdout is not None, "piped"
        line = self._parent.stdout.readline()
        if not line:
            raise NotReached(f"the floor's parent ended: see {self._folder / 'floor.log'}")
        return json.loads(line)
