"""Stop the ranks of this node: whole process trees, with a grace, and an answer in any case."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from signal import SIGTERM

from fault_contracts.agent import AgentPhase, ExitStatus, WorkersStopped
from fault_contracts.agent import OomKill as ReportedOomKill
from fault_contracts.commands import StopMode, StopWorkers
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer, MasterPort
from node_agent.application.ports import StopOutcome, WorkerExit, WorkerHandle, WorkerProcesses
from node_agent.application.stop_in_process import InProcessStop
from node_agent.domain.agent_state import AgentEvent
from node_agent.domain.block_ranks import begun

_PIDS_MAX = 1_024
"""WorkersStopped.stuck_pids takes so many."""


def exit_status(ended: WorkerExit) -> ExitStatus:
    """A worker's end as it is reported."""
    return ExitStatus(
        rank=ended.handle.rank,
        local_rank=ended.handle.local_rank,
        pid=ended.handle.pid,
        exit_code=ended.exit_code,
        signal=ended.signal,
        oom_kill=ReportedOomKill(ended.oom_kill.value),
    )


def counted(ranks: int) -> str:
    """`1 rank`, `2 ranks`."""
    return "1 rank" if ranks == 1 else f"{ranks} ranks"


class WorkerStop:
    """The use case behind StopWorkers."""

    def __init__(
        self,
        life: AgentLife,
        processes: WorkerProcesses,
        port: MasterPort,
        announcer: Announcer,
        in_process: InProcessStop,
    ) -> None:
        self._life = life
        self._in_process = in_process
        self._processes = processes
        self._port = port
        self._announcer = announcer

    async def carry_out(self, command: StopWorkers) -> WorkersStopped:
        """Stop what runs.

        Raises:
            TransitionRefused: the agent is in a phase that knows no stop.
        """
        running = len(self._processes.running())
        standing: tuple[WorkerHandle, ...] = ()
        if command.mode is StopMode.IN_PROCESS and self._life.in_process:
            standing, outcome = await self._to_barrier(command)
        else:
            outcome = await self.stop_group(AgentEvent.STOP, grace_s=command.grace_s, condemned=command.ranks or ())
        if running and not standing:
            self._announcer.say(f"stopped {counted(running)} in {outcome.took_s:.2f} s: {command.reason.sentence}")
        self._life.topology_version = max(self._life.topology_version, command.fence.topology_version)
        stuck = [handle.pid for handle in outcome.unkillable] + list(outcome.leftover_pids)
        return WorkersStopped(
            node_id=self._life.identity.node_id,
            instance_id=self._life.identity.instance_id,
            job_id=self._life.identity.job_id,
            topology_version=command.fence.topology_version,
            operation_id=command.operation_id,
            exits=tuple(exit_status(ended) for ended in outcome.exits),
            stuck_pids=tuple(stuck[:_PIDS_MAX]),
            master_port=self._port.number,
            at_barrier=tuple(handle.rank for handle in standing),
            duration_s=outcome.took_s,
        )

    async def _to_barrier(self, command: StopWorkers) -> tuple[tuple[WorkerHandle, ...], StopOutcome]:
        life = self._life
        life.advance(AgentEvent.STOP)
        found = await self._in_process.carry_out(command)
        self._port.renew()
        if found.standing:
            life.handles[:] = found.standing
            life.progress = None
            if life.phase is not AgentPhase.SHUTDOWN:
                life.advance(AgentEvent.AT_BARRIER)
            ended = len(found.ended.exits)
            self._announcer.say(
                f"{counted(len(found.standing))} back at the barrier in {found.took_s:.2f} s"
                + (f", {counted(ended)} ended" if ended else "")
                + f": {command.reason.sentence}"
            )
        else:
            self._forget_group()
            if life.phase is not AgentPhase.SHUTDOWN:
                life.advance(AgentEvent.STOPPED)
        return found.standing, replace(found.ended, took_s=found.took_s)

    def _forget_group(self) -> None:
        life = self._life
        life.handles.clear()
        life.group = None
        life.progress = None
        life.in_process = False
        life.note_blocks(begun(0, 0))

    async def stop_group(self, event: AgentEvent, *, grace_s: float, condemned: Collection[int] = ()) -> StopOutcome:
        """Go through STOPPING back to READY, with no group and a fresh port for the next store.

        Raises:
            TransitionRefused: `event` is not possible now.
        """
        life = self._life
        life.advance(event)
        outcome = await self._processes.stop(
            tuple(life.handles),
            grace_s=grace_s,
            first_signal=life.program.shutdown_signal or SIGTERM,
            condemned=condemned,
        )
        if event is not AgentEvent.FALL_BACK:
            # Falling back happens on the way to a start whose store address is decided already.
            self._port.renew()
        stuck = len(outcome.unkillable) + len(outcome.leftover_pids)
        if stuck:
            self._announcer.say(f"{stuck} processes hang in the kernel and survive SIGKILL; going on without them")
        if life.phase is not AgentPhase.SHUTDOWN:
            life.advance(AgentEvent.STOPPED)
        self._forget_group()
        return outcome
