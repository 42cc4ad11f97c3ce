"""What the adapter keeps of one worker between its start and the end of its descendants."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from dataclasses import dataclass, field

from node_agent.adapters.nursery import ExitStatus
from node_agent.adapters.process_sweep import Prey
from node_agent.adapters.worker_output import RankOutput
from node_agent.application.ports import WorkerExit, WorkerHandle, WorkerSpec
from worker_link.process_tree import read_process


@dataclass(slots=True, kw_only=True)
class WorkerRecord:
    """Mutable by design: it lives inside one adapter and never leaves it."""

    handle: WorkerHandle
    spec: WorkerSpec
    output: RankOutput
    marker: str
    popen: subprocess.Popen[bytes] | None
    """Set for spawned workers, which this process has to wait for."""
    pidfd: int | None
    status: ExitStatus | None = None
    stopping: bool = False
    exit: WorkerExit | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    unknown_timer: asyncio.TimerHandle | None = None
    started_monotonic_s: float = 0.0

    def send(self, number: int) -> bool:
        """One signal to the worker alone, by pidfd, so never to a stranger with its pid; False: it has ended."""
        if self.pidfd is None or self.exit is not None:
            return False
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            return False
        return True

    def is_alive(self) -> bool:
        """Asked of the kernel: a zombie whose status nobody has told yet is dead."""
        row = read_process(self.handle.pid)
        return row is not None and row.alive and row.start_ticks == self.handle.start_ticks

    def prey(self) -> Prey:
        """As the sweep wants it."""
        return Prey(
            pid=self.handle.pid,
            start_ticks=self.handle.start_ticks,
            marker=self.marker,
            stacks_path=str(self.spec.files.stacks.resolve()),
        )
