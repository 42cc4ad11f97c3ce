"""Fakes and builders for the agent's use cases: one node with scripted processes, everything in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from signal import SIGTERM, SIGUSR1, Signals
from typing import Any

from checkpoint_fakes import FakeCheckpointFiles

from fault_contracts.agent import JobSpec
from fault_contracts.commands import CheckpointRef, Command, EndJob, StartWorkers, StopWorkers
from fault_contracts.envelope import Envelope, seal
from fault_contracts.payload import Fence, Payload, Reason
from fault_contracts.preemption import RequestCheckpoint
from fault_contracts.recovery import JobOutcome, NodeAssignment
from fault_contracts.recovery_level import RecoveryLevel
from node_agent.adapters.command_journal import SqliteCommandJournal
from node_agent.application.agent_life import AgentIdentity, AgentLife, JobProgram
from node_agent.application.block_reports import BlockReports
from node_agent.application.discover_checkpoints import CheckpointDiscovery
from node_agent.application.end_job import JobEnd
from node_agent.application.farewell import Farewell
from node_agent.application.leave_job import Leave
from node_agent.application.obey_commands import CommandIntake
from node_agent.application.observe_exits import ExitObserver
from node_agent.application.outgoing import Outgoing
from node_agent.application.ports import (
    ProgramKind,
    RankFiles,
    StopOutcome,
    TerminalCopy,
    WorkerExit,
    WorkerHandle,
    WorkerSource,
    WorkerSpec,
    WorkerStartError,
)
from node_agent.application.relay_worker_reports import WorkerReportRelay
from node_agent.application.report_rank_faults import RankFaultReporter
from node_agent.application.request_checkpoint import CheckpointAsk
from node_agent.application.restart_in_place import InPlaceRestart
from node_agent.application.start_workers import WorkerStart
from node_agent.application.stop_in_process import InProcessStop
from node_agent.application.stop_workers import WorkerStop
from node_agent.domain.agent_state import AgentEvent
from node_agent.domain.checkpoint_check import CheckLevel
from training_topology.identity import Rank
from worker_link.block_messages import BlockOrder
from worker_link.messages import CheckpointRequest, Step

T0 = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass
class HandClock:
    """Moves when the test says."""

    at_s: float = 0.0
    ticks: bool = False
    """Sleeping takes time."""
    wrong_s: float = 0.0
    """The wall clock of this machine is ahead of everybody else's by that."""

    def now(self) -> datetime:
        return T0 + timedelta(seconds=self.at_s + self.wrong_s)

    def monotonic_s(self) -> float:
        return self.at_s

    async def sleep(self, duration_s: float) -> None:
        self.at_s += duration_s if self.ticks else 0.0
        await asyncio.sleep(0)


@dataclass
class FakeProcesses:
    """Workers that live until they are told otherwise."""

    refuse: str = ""
    hold: asyncio.Event | None = None
    specs: list[WorkerSpec] = field(default_factory=list)
    alive: dict[int, WorkerHandle] = field(default_factory=dict)
    stops: list[tuple[tuple[int, ...], float]] = field(default_factory=list)
    first_signals: list[Signals] = field(default_factory=list)
    condemned: set[int] = field(default_factory=set)
    unkillable: bool = False
    callback: Callable[[WorkerExit], None] = lambda _exit: None
    clock: HandClock = field(default_factory=HandClock)
    pids: int = 1_000
    files: dict[int, RankFiles] = field(default_factory=dict)

    async def start(self, spec: WorkerSpec) -> WorkerHandle:
        if self.hold is not None:
            await self.hold.wait()
        if self.refuse and spec.local_rank == 1:
            raise WorkerStartError(self.refuse)
        self.specs.append(spec)
        self.pids += 1
        handle = WorkerHandle(
            rank=spec.rank,
            local_rank=spec.local_rank,
            topology_version=spec.topology_version,
            pid=self.pids,
            start_ticks=1,
            source=WorkerSource.NURSERY,
            started_at=T0,
            stacks_on_signal=True,
        )
        self.alive[handle.pid] = handle
        self.files[handle.pid] = spec.files
        return handle

    def files_of(self, handle: WorkerHandle) -> RankFiles | None:
        return self.files.get(handle.pid)

    def exit_of(self, handle: WorkerHandle, **values: Any) -> WorkerExit:
        return WorkerExit(handle=handle, exited_at=self.clock.now(), **values)

    def end(self, local_rank: int, **values: Any) -> None:
        """A worker of this local rank ends by itself."""
        handle = next(h for h in self.alive.values() if h.local_rank == local_rank)
        del self.alive[handle.pid]
        self.callback(self.exit_of(handle, **values))

    async def stop(
        self,
        handles: Sequence[WorkerHandle],
        *,
        grace_s: float,
        first_signal: Signals = SIGTERM,
        condemned: Collection[int] = (),
    ) -> StopOutcome:
        self.condemned.update(condemned)
        self.stops.append((tuple(handle.pid for handle in handles), grace_s))
        self.first_signals.append(first_signal)
        if self.unkillable:
            return StopOutcome(unkillable=tuple(handles), took_s=0.1)
        exits = []
        for handle in handles:
            if self.alive.pop(handle.pid, None) is not None:
                ended = self.exit_of(handle, signal=int(first_signal), requested=True)
                exits.append(ended)
                self.callback(ended)
        return StopOutcome(exits=tuple(exits), took_s=0.1)

    def reassign(self, handle: WorkerHandle, *, rank: int, topology_version: int) -> WorkerHandle:
        renewed = replace(handle, rank=Rank(rank), topology_version=topology_version)
        self.alive[handle.pid] = renewed
        return renewed

    def running(self) -> tuple[WorkerHandle, ...]:
        return tuple(self.alive.values())


@dataclass
class FakeLine:
    """The way to the ranks' blocks; `deaf` ranks have no connection for it."""

    orders: list[tuple[int, BlockOrder]] = field(default_factory=list)
    deaf: set[int] = field(default_factory=set)
    answer: Callable[[WorkerHandle, BlockOrder], None] = lambda _handle, _order: None

    def order(self, handle: WorkerHandle, order: BlockOrder) -> bool:
        if handle.rank in self.deaf:
            return False
        self.orders.append((handle.rank, order))
        self.answer(handle, order)
        return True

    def reassign(self, old: WorkerHandle, new: WorkerHandle) -> None:
        pass  # the fake knows ranks, not generations


@dataclass
class FakeLinks:
    """The links for reports; only ranks in `linked` use worker-link."""

    linked: set[int] = field(default_factory=set)
    asked: list[tuple[int, CheckpointRequest]] = field(default_factory=list)

    def links(self, handle: WorkerHandle) -> bool:
        return handle.rank in self.linked

    def send(self, handle: WorkerHandle, message: CheckpointRequest) -> bool:
        if handle.rank in self.linked:
            self.asked.append((handle.rank, message))
        return handle.rank in self.linked


class ListOutbox:
    """Keeps envelopes in order."""

    def __init__(self) -> None:
        self.sent: list[tuple[Envelope[Any], bool]] = []

    async def put(self, envelope: Envelope[Any], *, urgent: bool = False) -> None:
        self.sent.append((envelope, urgent))


class FakeEvidence:
    """Evidence in memory; `gate` holds a save until it is set, `full` keeps nothing."""

    def __init__(self) -> None:
        self.saved: list[tuple[int, dict[str, str], dict[str, Path]]] = []
        self.gate: asyncio.Event | None = None
        self.full = False

    async def save(self, topology_version: int, *, texts: Mapping[str, str], tails: Mapping[str, Path]) -> str:
        if self.gate is not None:
            await self.gate.wait()
        if self.full:
            return ""
        self.saved.append((topology_version, dict(texts), dict(tails)))
        return f"/logs/attempt_{topology_version}/evidence_{len(self.saved)}"


class CountingPort:
    """Ports 5001, 5002, ..."""

    def __init__(self) -> None:
        self.number = 5_001

    def renew(self) -> int:
        self.number += 1
        return self.number


class Node:
    """One agent with its use cases wired as in main."""

    def __init__(self, tmp_path: Path, *, nproc: int = 2, node_id: str = "n0", instance_id: str = "life-1") -> None:
        self.clock = HandClock()
        self.processes = FakeProcesses(clock=self.clock)
        self.outbox = ListOutbox()
        self.said: list[str] = []
        self.port = CountingPort()
        self.journal = SqliteCommandJournal(tmp_path / "commands.db")
        identity = AgentIdentity(
            node_id=node_id, instance_id=instance_id, job_id="job", address="10.0.0.1", host="h", pid=1
        )
        self.life = AgentLife(
            identity=identity,
            spec=JobSpec(nnodes=2, nproc_per_node=nproc),
            program=JobProgram(
                kind=ProgramKind.SCRIPT,
                program="train.py",
                args=("--lr", "1"),
                cwd=tmp_path,
                role="default",
                base_env={"HOME": "/h"},
                files=files_in(tmp_path),
                terminal=lambda _local_rank: TerminalCopy(),
            ),
        )
        self.life.advance(AgentEvent.CONNECTED)
        self.outgoing = Outgoing(identity, self.clock, self.outbox)
        self.line = FakeLine()
        in_process = InProcessStop(self.life, self.processes, self.line, self)
        self.stop = WorkerStop(self.life, self.processes, self.port, self, in_process)
        in_place = InPlaceRestart(self.life, self.processes, self.line)
        self.start = WorkerStart(self.life, self.processes, self.stop, self.clock, self, in_place)
        self.end = JobEnd(self.life, self.stop, self)
        self.blocks = BlockReports(self.life, self.outgoing, self.clock, self)
        self.announced = 0
        self.blocks.announce = self.on_announced
        self.files = FakeCheckpointFiles()
        self.checkpoints = CheckpointDiscovery(
            self.life, self.outgoing, self.clock, self, self.files, level=CheckLevel.NONE
        )
        self.relay = WorkerReportRelay(self.life, self.outgoing, self.clock, self, self.blocks, self.checkpoints)
        self.links = FakeLinks()
        self.ask = CheckpointAsk(self.life, self.links, self)
        self.leave = self.leaves_on(SIGUSR1)
        self.evidence = FakeEvidence()
        self.faults = RankFaultReporter(self.life, self.outgoing, self.processes, self.evidence, self.clock, self)
        self.intake = CommandIntake(
            self.life, self.journal, self.start, self.stop, self.end, self.outgoing, self.clock, self, self.ask
        )
        self.processes.callback = ExitObserver(self.life, self.outgoing, self.clock, self).on_exit

    def leaves_on(self, *preemption: Signals, shutdown_timeout_s: float = 30.0) -> Leave:
        """How signals are obeyed when these announce the loss of the node."""
        farewell = Farewell(self.life, self.links, self.ask, self.outgoing, self.clock, self)
        return Leave(
            self.life,
            self.processes,
            self,
            shutdown_timeout_s=shutdown_timeout_s,
            farewell=farewell,
            preemption=preemption,
        )

    def steps(self, *steps: int, every_s: float = 0.5) -> None:
        """All ranks report these steps over worker-link."""
        for number in steps:
            self.clock.at_s += every_s
            for handle in self.processes.running():
                self.links.linked.add(handle.rank)
                self.relay.on_step(handle, Step(step=number, at_monotonic_s=self.clock.at_s))

    def on_announced(self) -> None:
        self.announced += 1

    def say(self, line: str) -> None:
        self.said.append(line)

    async def obey(self, command: Command, *, pushed: bool = True) -> list[Payload]:
        """Hand a command in, sent at this moment by a clock that is right; the reports that it caused."""
        before = len(self.outbox.sent)
        sent_at = T0 + timedelta(seconds=self.clock.at_s)
        envelope = seal(command, source="planner", cause_id=command.operation_id, time=sent_at)
        await self.intake.handle(envelope, pushed=pushed)
        return await self.reports_from(before)

    async def reports_from(self, place: int = 0) -> list[Payload]:
        await self.outgoing.drain()
        return [envelope.data for envelope, _ in self.outbox.sent[place:]]

    def urgent(self, model: type[Payload]) -> list[bool]:
        return [urgent for envelope, urgent in self.outbox.sent if isinstance(envelope.data, model)]


def files_in(tmp_path: Path) -> Callable[[int, int], RankFiles]:
    def files(version: int, local_rank: int) -> RankFiles:
        directory = tmp_path / f"attempt_{version}" / str(local_rank)
        return RankFiles(
            directory=directory,
            stdout=directory / "stdout.log",
            stderr=directory / "stderr.log",
            error=directory / "error.json",
            stacks=directory / "stacks.log",
        )

    return files


def _command(verb: str, version: int, attempt: int, valid_s: float) -> dict[str, Any]:
    return {
        "job_id": "job",
        "fence": Fence(topology_version=version, attempt=attempt, incident_id="inc" if attempt else "", epoch=3),
        "operation_id": f"{verb}-{version}-{attempt}",
        "expires_at": T0 + timedelta(seconds=valid_s),
    }


ROWS = (
    NodeAssignment(node_rank=0, node_id="n0", address="10.0.0.1", nproc=2),
    NodeAssignment(node_rank=1, node_id="n1", address="10.0.0.2", nproc=2),
)


def start(
    version: int = 1,
    *,
    attempt: int = 0,
    rows: tuple[NodeAssignment, ...] = ROWS,
    base_version: int = 0,
    valid_s: float = 60.0,
    checkpoint: CheckpointRef | None = None,
    restart_count: int = 0,
    level: RecoveryLevel = RecoveryLevel.PROCESS,
    ranks_replaced: tuple[int, ...] | None = None,
) -> StartWorkers:
    return StartWorkers(
        **_command("start", version, attempt, valid_s),
        base_version=base_version,
        rows=rows,
        nnodes=2,
        world_size=4,
        master_addr="10.0.0.1",
        master_port=5_001,
        checkpoint=checkpoint,
        restart_count=restart_count,
        level=level,
        ranks_replaced=ranks_replaced,
    )


def stop(version: int = 1, *, attempt: int = 1, valid_s: float = 60.0, **more: Any) -> StopWorkers:
    reason = Reason(rule_id="gang.broken", sentence="rank 3 on n1 ended by signal 9")
    return StopWorkers(**_command("stop", version, attempt, valid_s), grace_s=0.5, reason=reason, **more)


def request(version: int = 1, *, at_step: int = 9, valid_s: float = 60.0) -> RequestCheckpoint:
    reason = Reason(rule_id="preemption.noticed", sentence="n1 is about to be taken away: SIGTERM to the agent")
    return RequestCheckpoint(**_command("request", version, 0, valid_s), at_step=at_step, within_s=30.0, reason=reason)


def end(outcome: JobOutcome = JobOutcome.SUCCEEDED, *, version: int = 1, valid_s: float = 60.0) -> EndJob:
    reason = Reason(rule_id="classify.user.repeated", sentence="the same exception twice at the same step")
    return EndJob(**_command("end", version, 0, valid_s), outcome=outcome, reason=reason, summary="fix the loader")


def row(node_rank: int, node_id: str) -> NodeAssignment:
    return ROWS[node_rank].model_copy(update={"node_id": node_id})
