"""Start this node's ranks of a topology_version, or stand by when the new table has no row for this node."""

from __future__ import annotations

import asyncio

from fault_contracts.agent import CommandRefused, WorkersStarted
from fault_contracts.commands import StartWorkers
from fault_contracts.rank_rows import rows_of
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer
from node_agent.application.ports import WorkerHandle, WorkerProcesses, WorkerSource, WorkerSpec
from node_agent.application.restart_in_place import InPlaceRestart
from node_agent.application.stop_workers import WorkerStop
from node_agent.domain.agent_state import AgentEvent
from node_agent.domain.block_ranks import begun
from node_agent.domain.progress import Progress
from node_agent.domain.worker_env import Generation, NoDevice, WorkerPlace, worker_args, worker_env
from node_agent.domain.worker_group import WorkerGroup
from service_kit.ports import Clock
from training_topology.identity import LocalRank, NodeId, Rank
from training_topology.topology import NodeRow, RankTable, apply_rows


class TableGap(Exception):
    """The command's rows are a change to a table that this agent does not hold."""


class WorkerStart:
    """The use case behind StartWorkers."""

    def __init__(
        self,
        life: AgentLife,
        processes: WorkerProcesses,
        stop: WorkerStop,
        clock: Clock,
        announcer: Announcer,
        in_place: InPlaceRestart,
    ) -> None:
        self._life = life
        self._in_place = in_place
        self._processes = processes
        self._stop = stop
        self._clock = clock
        self._announcer = announcer

    async def carry_out(self, command: StartWorkers) -> WorkersStarted | CommandRefused | None:
        """Start the ranks of this node's row.

        Returns:
            What to report; None when this node has no row and nothing ran.

        Raises:
            TransitionRefused: the agent is in a phase that knows no start.
            TableGap: the whole table is needed.
        """
        life = self._life
        began_s = self._clock.monotonic_s()
        life.table = _merged(life.table, command)
        life.topology_version = max(life.topology_version, command.fence.topology_version)
        row = life.table.row_of(NodeId(life.identity.node_id))
        if row is None:
            await self._stand_by(command)
            return None
        try:
            specs = self._specs(command, row)
        except NoDevice as error:
            return self._refusal(command, str(error))
        survivors = await self._begin(command, specs)
        fresh = [spec for spec in specs if spec.local_rank not in {handle.local_rank for handle in survivors}]
        started = await self._all_started(fresh)
        life.handles.extend(survivors)
        life.handles.extend(handle for handle in started if isinstance(handle, WorkerHandle))
        life.handles.sort(key=lambda handle: handle.local_rank)
        if life.leaving.is_set():
            # Told to go while the nursery was still importing; what did start has been missed by that stop.
            await self._processes.stop(tuple(life.handles), grace_s=0.0)
            return None
        failures = [failure for failure in started if isinstance(failure, BaseException)]
        if failures:
            return await self._give_up(command, failures)
        for watch in life.watches:
            watch.on_started()
        took_s = self._clock.monotonic_s() - began_s
        source = _source_of([handle for handle in started if isinstance(handle, WorkerHandle)])
        if command.reason is not None:
            self._announcer.say(f"verdict: {command.reason.sentence}")
        self._announcer.say(_started_line(command, specs, fresh, source, took_s))
        return WorkersStarted(
            node_id=life.identity.node_id,
            instance_id=life.identity.instance_id,
            job_id=life.identity.job_id,
            topology_version=command.fence.topology_version,
            operation_id=command.operation_id,
            pids=tuple(handle.pid for handle in life.handles),
            source=source,
            survivors=tuple(handle.rank for handle in survivors),
            duration_s=took_s,
        )

    async def _begin(self, command: StartWorkers, specs: list[WorkerSpec]) -> list[WorkerHandle]:
        """Make this the generation of the node; returns the ranks that go on in place. Nobody else is left.

        Raises:
            TransitionRefused: the agent is in a phase that knows no start.
        """
        life = self._life
        kept = dict(self._in_place.kept(command))
        if not kept and life.handles and life.in_process:
            await self._stop.stop_group(AgentEvent.FALL_BACK, grace_s=0.0)
        life.advance(AgentEvent.START)
        life.start = command
        unwanted = [handle for handle in life.handles if handle not in kept.values()]
        life.handles.clear()
        life.group = WorkerGroup(
            topology_version=command.fence.topology_version, first_rank=Rank(specs[0].rank), nproc=len(specs)
        )
        life.progress = Progress(expected=len(specs))
        survivors, lost = self._let_in(kept, specs, command, nproc=len(specs))
        # Survivors were drained when they got their new place; what comes from now on is this generation's.
        for watch in life.watches:
            watch.on_begun(life.group, [handle.rank for handle in survivors])
        if unwanted or lost:
            await self._processes.stop([*unwanted, *lost], grace_s=0.0)
        return survivors

    def _let_in(
        self, kept: dict[LocalRank, WorkerHandle], specs: list[WorkerSpec], command: StartWorkers, *, nproc: int
    ) -> tuple[list[WorkerHandle], list[WorkerHandle]]:
        """Survivors in their new generation, and those that could not be reached any more."""
        life = self._life
        life.note_blocks(begun(command.fence.topology_version, nproc, survivors=kept))
        survivors, lost = [], []
        for spec in specs:
            handle = kept.get(spec.local_rank)
            if handle is None:
                continue
            renewed = self._in_place.let_in(handle, spec, command)
            if renewed is not None:
                survivors.append(renewed)
            else:
                life.note_blocks(life.blocks.gone(spec.local_rank))
                lost.append(handle)
        return survivors, lost

    async def _all_started(self, specs: list[WorkerSpec]) -> list[WorkerHandle | BaseException]:
        """Start all at once; when the agent is told to leave, the starts that still wait are given up."""
        starts = [asyncio.create_task(self._processes.start(spec)) for spec in specs]
        leaving = asyncio.create_task(self._life.leaving.wait())
        left: set[asyncio.Task[WorkerHandle]] = set(starts)
        while left and not leaving.done():
            _, waiting = await asyncio.wait([*left, leaving], return_when=asyncio.FIRST_COMPLETED)
            left &= waiting
        leaving.cancel()
        for start in left:
            start.cancel()
        return await asyncio.gather(*starts, return_exceptions=True)

    async def _stand_by(self, command: StartWorkers) -> None:
        if self._life.handles:
            # The planner gave this node's place away while it was out of reach; two nodes must not hold one rank.
            await self._stop.stop_group(AgentEvent.STOP, grace_s=self._life.spec.stop_grace_s)
            self._announcer.say("this node is no longer part of the gang: its ranks were stopped")
        version = command.fence.topology_version
        self._announcer.say(f"standing by as a spare (version {version} runs on {command.nnodes} other nodes)")

    async def _give_up(self, command: StartWorkers, failures: list[BaseException]) -> CommandRefused:
        await self._stop.stop_group(AgentEvent.START_FAILED, grace_s=0.0)
        reasons = "; ".join(dict.fromkeys(f"{failure}" or type(failure).__name__ for failure in failures))
        return self._refusal(command, reasons)

    def _refusal(self, command: StartWorkers, reasons: str) -> CommandRefused:
        self._announcer.say(f"workers could not be started: {reasons}")
        return CommandRefused(
            node_id=self._life.identity.node_id,
            instance_id=self._life.identity.instance_id,
            job_id=self._life.identity.job_id,
            operation_id=command.operation_id,
            topology_version=command.fence.topology_version,
            code="start_failed",
            message=reasons[:2_048],
        )

    def _specs(self, command: StartWorkers, row: NodeRow) -> list[WorkerSpec]:
        life, program = self._life, self._life.program
        version = command.fence.topology_version
        generation = Generation(
            job_id=life.identity.job_id,
            role=program.role,
            topology_version=version,
            master_addr=command.master_addr,
            master_port=command.master_port,
            restart_count=command.restart_count,
            restarts_max=life.spec.restarts_max,
            checkpoint=command.checkpoint,
        )
        specs = []
        for local_rank, rank in enumerate(life.table.ranks_of(row.node_id)):
            place = WorkerPlace(
                rank=rank,
                local_rank=local_rank,
                world_size=command.world_size,
                nproc=row.nproc,
                node_rank=row.node_rank,
                nnodes=command.nnodes,
                virtual_local_rank=program.virtual_local_rank,
            )
            specs.append(
                WorkerSpec(
                    rank=Rank(rank),
                    local_rank=LocalRank(local_rank),
                    topology_version=version,
                    kind=program.kind,
                    program=program.program,
                    args=worker_args(program.args, local_rank),
                    env=worker_env(program.base_env, place, generation),
                    cwd=program.cwd,
                    files=program.files(version, local_rank),
                    terminal=program.terminal(local_rank),
                )
            )
        return specs


def _merged(table: RankTable, command: StartWorkers) -> RankTable:
    if command.base_version == 0:
        table = RankTable(topology_version=0)
    elif command.base_version != table.topology_version:
        raise TableGap(
            f"the rows change version {command.base_version}; this agent holds version {table.topology_version}"
        )
    try:
        version = command.fence.topology_version
        return apply_rows(table, topology_version=version, nnodes=command.nnodes, rows=rows_of(command))
    except ValueError as error:
        raise TableGap(str(error)) from error


def _source_of(started: list[WorkerHandle]) -> str:
    if not started:
        return "in_process"
    return WorkerSource.SPAWN if any(h.source is WorkerSource.SPAWN for h in started) else WorkerSource.NURSERY


def _started_line(
    command: StartWorkers, specs: list[WorkerSpec], fresh: list[WorkerSpec], source: str, took_s: float
) -> str:
    first, last = specs[0].rank, specs[-1].rank
    ranks = f"rank {first}" if first == last else f"ranks {first}-{last}"
    verb = "started" if command.restart_count == 0 else "restarted"
    origin = "" if command.checkpoint is None else f" from step {command.checkpoint.step}"
    if not fresh:
        verb = "restarted in place"
    elif len(fresh) < len(specs):
        new = ", ".join(str(spec.rank) for spec in fresh[:8])
        origin = f" ({len(specs) - len(fresh)} in place, new process for {new}){origin}"
    return (
        f"{verb} {ranks} of {command.world_size}{origin} in {took_s:.2f} s "
        f"(version {command.fence.topology_version}, {source})"
    )
