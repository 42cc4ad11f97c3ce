"""A scripted agent on the memory bus: reports, obeys by fence, answers pings, beats, catches up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fault_contracts.agent import (
    AgentHeartbeat,
    AgentLeft,
    AgentPhase,
    AgentReported,
    CheckpointReported,
    CommandRefused,
    ExitStatus,
    StepReported,
    WorkerExited,
    WorkersStarted,
    WorkersStopped,
)
from fault_contracts.commands import Command, EndJob, StartWorkers, StopWorkers
from fault_contracts.payload import Payload
from service_kit.errors import TransientError
from service_kit.ports import Delivery
from service_kit.testing.memory_bus import MemoryBus

if TYPE_CHECKING:
    from planner_rig import Rig

JOB = "job-1"


class Node:
    """A scripted agent: reports, obeys by fence, answers pings, beats, catches up. Its ranks are a version number."""

    def __init__(self, rig: Rig, node_id: str, life: int = 1) -> None:
        self.rig, self.node_id, self.life = rig, node_id, life
        self.instance_id = f"{node_id}/{life}"
        self.bus = MemoryBus(rig.broker, name=self.instance_id)
        self.running: int | None = None
        self.newest = (-1, -1, -1)
        self.outcomes: dict[str, Payload] = {}
        self.port = 1_000 * life
        self.dead = False
        self.exit: EndJob | None = None
        self.starts: list[int] = []
        self.table: dict[int, str] = {}
        self.table_version = 0
        self._count = 0
        self._lock = asyncio.Lock()
        self._outbox: asyncio.Queue[Payload] = asyncio.Queue()
        self.tasks: list[asyncio.Task[None]] = []

    async def join(self) -> None:
        await self.bus.answer(what="ping", key=self.node_id, reply=self._pong)
        await self.bus.listen(messages=[StopWorkers, StartWorkers, EndJob], handler=self._pushed, key=JOB)
        for work in (self._send_all(), self._beat(), self._catch_up()):
            self.tasks.append(asyncio.create_task(work))
        self.report(AgentPhase.READY)

    def kill(self) -> None:
        """kill -9 of the agent: its ranks go with it."""
        self.dead, self.running = True, None
        self.bus.kill()
        for task in self.tasks:
            task.cancel()

    def report(self, phase: AgentPhase) -> None:
        self.send(self.reported(phase))

    def reported(self, phase: AgentPhase) -> AgentReported:
        return AgentReported(
            node_id=self.node_id,
            instance_id=self.instance_id,
            job_id=JOB,
            spec=self.rig.spec,
            address=self.node_id,
            master_port=self.port,
            phase=phase,
            topology_version=max(0, self.newest[0]),
            pid=1,
            host=self.node_id,
            reported_at=self.rig.clock.now(),
        )

    def leave(self) -> None:
        self.running = None
        self.send(
            AgentLeft(
                node_id=self.node_id,
                instance_id=self.instance_id,
                job_id=JOB,
                reason="SIGTERM",
                left_at=self.rig.clock.now(),
            )
        )

    def rank_dies(self) -> None:
        if self.running is None:
            return
        self.send(
            WorkerExited(
                node_id=self.node_id,
                instance_id=self.instance_id,
                job_id=JOB,
                topology_version=self.running,
                ordinal=0,
                exit=ExitStatus(rank=0, local_rank=0, pid=1, signal=9),
                ran_s=1,
                observed_at=self.rig.clock.now(),
            )
        )

    def saves(self, step: int, rank: int) -> None:
        assert self.running is not None
        self.send(
            CheckpointReported(
                node_id=self.node_id,
                job_id=JOB,
                topology_version=self.running,
                rank=rank,
                step=step,
                path=f"/ckpt/{step}",
                saved_at=self.rig.clock.now(),
            )
        )

    def steps(self, step: int) -> None:
        """Tell a step that is not the first of its generation."""
        assert self.running is not None
        self.send(
            StepReported(
                node_id=self.node_id,
                job_id=JOB,
                topology_version=self.running,
                step=step,
                first=False,
                reported_at=self.rig.clock.now(),
            )
        )

    def send(self, payload: Payload) -> None:
        self._outbox.put_nowait(payload)

    async def _send_all(self) -> None:
        while True:
            payload = await self._outbox.get()
            self._count += 1
            await self.rig.publish(self.bus, payload, cause=self.instance_id, ordinal=self._count)

    async def _beat(self) -> None:
        while True:
            await self.rig.clock.sleep(2)
            beat = AgentHeartbeat(
                node_id=self.node_id,
                instance_id=self.instance_id,
                job_id=JOB,
                phase=AgentPhase.READY if self.running is None else AgentPhase.RUNNING,
                topology_version=max(0, self.newest[0]),
            )
            await self.rig.publish(self.bus, beat, cause=self.instance_id, ordinal=f"beat{self.rig.clock.now()}")

    async def _catch_up(self) -> None:
        while True:
            await self.rig.clock.sleep(5)
            try:
                found = await self.bus.last_commands(key=JOB, messages=[StopWorkers, StartWorkers, EndJob])
            except TransientError:
                continue
            if found:
                await self._obey(max((d.envelope.data for d in found), key=_point), pushed=False)

    async def _pong(self, _question: bytes) -> bytes:
        return b"{}"

    async def _pushed(self, delivery: Delivery) -> None:
        await self._obey(delivery.envelope.data)

    async def _obey(self, command: Command, *, pushed: bool = True) -> None:
        async with self._lock:
            if self.dead:
                return
            if command.operation_id in self.outcomes:
                if pushed:  # what a catch-up finds again is no news: the outbox keeps the answer until it is stored
                    self.send(self.outcomes[command.operation_id])
                return
            if _point(command) <= self.newest:
                return
            self.newest = _point(command)
            version = command.fence.topology_version
            if isinstance(command, EndJob):
                self.running, self.exit = None, command
            elif isinstance(command, StopWorkers):
                await self.rig.clock.sleep(0.05)
                self.running, self.port = None, self.port + 1
                self._answer(command, self._stopped(command, version))
            elif isinstance(command, StartWorkers):
                await self._start(command, version)

    async def _start(self, command: StartWorkers, version: int) -> None:
        if command.base_version not in (0, self.table_version):
            self._answer(
                command,
                CommandRefused(
                    node_id=self.node_id,
                    instance_id=self.instance_id,
                    job_id=JOB,
                    operation_id=command.operation_id,
                    topology_version=version,
                    code="table_gap",
                    message=f"holds {self.table_version}, rows are a change to {command.base_version}",
                ),
            )
            return
        rows = {row.node_rank: row.node_id for row in command.rows}
        self.table = rows if command.base_version == 0 else {**self.table, **rows}
        self.table_version = version
        if self.node_id not in self.table.values():
            self.running = None
            return
        self.rig.check_start(self, version)
        self.running = version
        self.starts.append(version)
        self._answer(
            command,
            WorkersStarted(
                node_id=self.node_id,
                instance_id=self.instance_id,
                job_id=JOB,
                topology_version=version,
                operation_id=command.operation_id,
                pids=(1,),
                source="nursery",
                duration_s=0,
            ),
        )

    def _stopped(self, command: StopWorkers, version: int) -> WorkersStopped:
        return WorkersStopped(
            node_id=self.node_id,
            instance_id=self.instance_id,
            job_id=JOB,
            topology_version=version,
            operation_id=command.operation_id,
            master_port=self.port,
            duration_s=0.05,
        )

    def _answer(self, command: Command, outcome: Payload) -> None:
        self.outcomes[command.operation_id] = outcome
        self.send(outcome)


def _point(command: Command) -> tuple[int, int, int]:
    verb = [StartWorkers, StopWorkers, EndJob].index(type(command))
    return command.fence.topology_version, verb, command.fence.attempt
