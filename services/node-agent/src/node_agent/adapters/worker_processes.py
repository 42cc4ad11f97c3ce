"""application.ports.WorkerProcesses on real processes: nursery first, spawn as the fallback, pidfd on each worker.

A worker ends exactly once for the caller. Its status comes from whoever is its parent (the nursery's message, or our
own wait4); the pidfd says that it is dead even when that message is late, and the status is then unknown.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from signal import SIGTERM, Signals

from node_agent.adapters.nursery import ExitStatus
from node_agent.adapters.oom_evidence import OomEvidence
from node_agent.adapters.process_sweep import kill_all
from node_agent.adapters.spawn import reap
from node_agent.adapters.standby import DEFAULT_PRELOAD, Standby
from node_agent.adapters.terminal import Terminal
from node_agent.adapters.worker_exit import exit_of
from node_agent.adapters.worker_launch import WorkerLaunch
from node_agent.adapters.worker_record import WorkerRecord
from node_agent.application.output_tap import OutputPlace, OutputTap
from node_agent.application.ports import (
    RankFiles,
    StandbyReport,
    StopOutcome,
    WorkerExit,
    WorkerHandle,
    WorkerSpec,
)
from service_kit.ports import Clock
from training_topology.identity import Rank
from worker_link.linux import become_subreaper
from worker_link.process_tree import read_process

STATUS_TIME_S_MAX = 0.25
"""The nursery's message follows a death by a millisecond; past this the gang must not wait for the exact status."""
RECORDS_MAX = 4096
"""Ended workers remembered for `stop` and `stderr_tail`; the oldest go first."""


class ProcessWorkers:
    """Starts, watches and ends the workers of one node."""

    def __init__(
        self,
        *,
        clock: Clock,
        terminal: Terminal,
        standby: bool = True,
        python: str = sys.executable,
        preload: Sequence[str] = DEFAULT_PRELOAD,
        worker_socket: Path | None = None,
        nursery_log: Path | None = None,
    ) -> None:
        self._clock = clock
        self._launch = WorkerLaunch(clock=clock, terminal=terminal, python=python, worker_socket=worker_socket)
        self._oom = OomEvidence()
        self._records: dict[int, WorkerRecord] = {}
        self._early: dict[int, ExitStatus] = {}
        self._callback: Callable[[WorkerExit], None] = lambda _exit: None
        self._standby: Standby | None = None
        if standby:
            self._standby = Standby(
                python=python,
                preload=preload,
                log_file=nursery_log,
                on_exited=self._on_status,
                on_lost=self._on_nursery_lost,
                notice=terminal.notice,
            )
        # A daemonised descendant of a spawned worker comes to us, instead of to init where nobody would look for it.
        become_subreaper()

    def on_exit(self, callback: Callable[[WorkerExit], None]) -> None:
        """See the port."""
        self._callback = callback

    def on_output(self, tap: OutputTap) -> None:
        """Workers that are started from now on have their output watched."""
        self._launch.tap = tap

    async def prepare(self, env: Mapping[str, str]) -> StandbyReport:
        """See the port."""
        if self._standby is None:
            return StandbyReport(ready=False, notice="standby workers are off; workers are spawned, which is slower")
        return await self._standby.start(env)

    async def start(self, spec: WorkerSpec) -> WorkerHandle:
        """See the port."""
        self._oom.refresh()
        record = await self._launch.start(spec, self._standby)
        self._watch(record)
        return record.handle

    def _watch(self, record: WorkerRecord) -> None:
        pid = record.handle.pid
        while len(self._records) >= RECORDS_MAX:
            oldest = next((key for key, value in self._records.items() if value.exit is not None), None)
            if oldest is None:
                break
            self._records.pop(oldest).output.close()
        self._records.pop(pid, None)  # a recycled pid: the old record's story is over
        self._records[pid] = record
        early = self._early.pop(pid, None)
        if early is not None:
            record.status = early
            self._finish(record)
            return
        try:
            record.pidfd = os.pidfd_open(pid)
        except OSError:  # it ended and was reaped by the nursery; its message is on the way
            self._on_dead(record)
            return
        row = read_process(pid)
        if row is None or row.start_ticks != record.handle.start_ticks:  # reaped, and the pid is another's already
            self._on_dead(record)
            return
        asyncio.get_running_loop().add_reader(record.pidfd, self._on_dead, record)

    def _on_dead(self, record: WorkerRecord) -> None:
        self._drop_pidfd(record)
        if record.exit is not None:
            return
        if record.popen is not None:
            record.status = reap(record.popen)
            self._finish(record)
        elif self._standby is None or self._standby.pid is None:
            self._finish(record, reason="the nursery ended before it could tell")
        else:
            loop = asyncio.get_running_loop()
            record.unknown_timer = loop.call_later(STATUS_TIME_S_MAX, self._give_up_on_status, record)

    def _give_up_on_status(self, record: WorkerRecord) -> None:
        self._finish(record, reason=f"the nursery did not tell within {STATUS_TIME_S_MAX} s")

    def _on_status(self, pid: int, status: ExitStatus) -> None:
        record = self._records.get(pid)
        if record is not None and record.exit is not None:
            return  # too late: it was reported as unknown
        if record is None:
            self._early[pid] = status  # it ended before `start` had its answer
            while len(self._early) > RECORDS_MAX:
                self._early.pop(next(iter(self._early)))
            return
        record.status = status
        self._finish(record)

    def _on_nursery_lost(self, _reason: str) -> None:
        # Its workers die with it (parent-death signal) and their pidfds tell; those that were waiting only for the
        # nursery's message are told now.
        for record in list(self._records.values()):
            if record.unknown_timer is not None and record.exit is None:
                self._finish(record, reason="the nursery ended before it could tell")

    def _finish(self, record: WorkerRecord, *, reason: str = "") -> None:
        if record.exit is not None:
            return
        self._drop_pidfd(record)
        if record.unknown_timer is not None:
            record.unknown_timer.cancel()
        record.output.drain()
        record.exit = exit_of(
            record,
            self._oom,
            ended_monotonic_s=self._clock.monotonic_s(),
            exited_at=self._clock.now(),
            reason=reason,
        )
        record.ended.set()
        self._callback(record.exit)

    def _drop_pidfd(self, record: WorkerRecord) -> None:
        if record.pidfd is not None:
            asyncio.get_running_loop().remove_reader(record.pidfd)
            os.close(record.pidfd)
            record.pidfd = None

    async def stop(
        self,
        handles: Sequence[WorkerHandle],
        *,
        grace_s: float,
        first_signal: Signals = SIGTERM,
        condemned: Collection[int] = (),
    ) -> StopOutcome:
        """See the port."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        records = [r for h in handles if (r := self._records.get(h.pid)) is not None and r.handle == h]
        for record in records:
            if record.exit is None:
                # One that is dead already, and whose status is on its way, was not ended by us: it is evidence.
                record.stopping = record.stopping or record.is_alive()
                # A condemned one hangs and would not use its grace, for which the whole gang would wait.
                record.send(signal.SIGKILL if record.handle.rank in condemned else first_signal)
                # A stopped process (SIGSTOP) takes no signal but SIGKILL until it is continued.
                record.send(signal.SIGCONT)
        if grace_s > 0 and first_signal != signal.SIGKILL:
            await self._wait_ended(records, grace_s)
        adopters = {os.getpid()}
        if self._standby is not None and self._standby.pid is not None:
            adopters.add(self._standby.pid)
        leftover = await kill_all([record.prey() for record in records], adopters=adopters)
        # Dead by now, or past the limit: only the status of the last ones may still be on its way.
        await self._wait_ended(records, STATUS_TIME_S_MAX + 0.05)
        for record in records:
            if record.exit is not None:
                record.output.close()
        self._reap_adopted()
        return StopOutcome(
            exits=tuple(record.exit for record in records if record.exit is not None),
            unkillable=tuple(record.handle for record in records if record.exit is None),
            leftover_pids=leftover,
            took_s=loop.time() - begun_s,
        )

    async def _wait_ended(self, records: Sequence[WorkerRecord], timeout_s: float) -> None:
        waiting = [record.ended.wait() for record in records if record.exit is None]
        if not waiting:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*waiting)
        except TimeoutError:  # the caller goes on with SIGKILL, or reports
            pass

    def _reap_adopted(self) -> None:
        """Zombies that came to us as the subreaper; never the children that somebody else here waits for."""
        markers = {record.handle.pid for record in self._records.values() if record.popen is not None}
        for session in markers:
            try:
                while os.waitpid(-session, os.WNOHANG)[0] != 0:
                    continue
            except ChildProcessError:
                continue

    def running(self) -> tuple[WorkerHandle, ...]:
        """See the port."""
        return tuple(record.handle for record in self._records.values() if record.exit is None)

    def owner_of(self, pid: int) -> WorkerHandle | None:
        """The running worker that this process is, or descends from; for the worker socket."""
        for _ in range(64):  # deeper trees do not happen; a bound against a loop over recycled pids
            record = self._records.get(pid)
            if record is not None and record.exit is None:
                return record.handle
            row = read_process(pid)
            if row is None or row.parent_pid <= 1:
                return None
            pid = row.parent_pid
        return None

    def reassign(self, handle: WorkerHandle, *, rank: Rank, topology_version: int) -> WorkerHandle:
        """See the port."""
        record = self._records.get(handle.pid)
        renewed = replace(handle, rank=rank, topology_version=topology_version)
        if record is not None and record.handle == handle:
            record.handle = renewed
            # The traceback of the old generation must not explain the end of the new one.
            record.output.renew(OutputPlace(topology_version=topology_version, rank=rank, local_rank=handle.local_rank))
        return renewed

    def signal(self, handle: WorkerHandle, number: int) -> bool:
        """See the port."""
        record = self._records.get(handle.pid)
        return record is not None and record.handle == handle and record.send(number)

    def files_of(self, handle: WorkerHandle) -> RankFiles | None:
        """See the port."""
        record = self._records.get(handle.pid)
        return None if record is None else record.spec.files

    def stderr_tail(self, rank: int) -> tuple[str, ...]:
        """See the port."""
        newest = next((r for r in reversed(self._records.values()) if r.handle.rank == rank), None)
        return newest.output.stderr.tail() if newest is not None else ()

    async def close(self) -> None:
        """See the port."""
        await self.stop([record.handle for record in self._records.values()], grace_s=0.0, first_signal=signal.SIGKILL)
        if self._standby is not None:
            self._standby.close()
        for record in self._records.values():
            record.output.close()
            self._drop_pidfd(record)
        self._oom.close()
