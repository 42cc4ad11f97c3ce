"""A real planner process and scripted agents on a real bus."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from fault_contracts.agent import (
    AgentHeartbeat,
    AgentPhase,
    AgentReported,
    ExitStatus,
    JobSpec,
    WorkerExited,
    WorkersStarted,
    WorkersStopped,
)
from fault_contracts.commands import Command, EndJob, StartWorkers, StopWorkers
from fault_contracts.envelope import seal
from fault_contracts.faults import Action, Attribution, FaultClassified
from fault_contracts.payload import Payload, Reason
from service_kit.clock import SystemClock
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.streams import ensure_streams
from service_kit.ports import Delivery
from service_kit.settings import BusSettings

START_LIMIT_S = 30.0


class PlannerProcess:
    """`python -m recovery_planner.main`, or another service's, with a failpoint or without."""

    def __init__(
        self,
        *,
        nats_url: str,
        cluster: str,
        folder: Path,
        name: str,
        env: dict[str, str] | None = None,
        module: str = "recovery_planner.main",
    ) -> None:
        self._module = module
        self.ready_file = folder / f"{name}.ready.json"
        self.log_path = folder / f"{name}.log"
        self._env = {
            **os.environ,
            "NATS_URL": nats_url,
            "PHALANX_CLUSTER": cluster,
            "PHALANX_READY_FILE": str(self.ready_file),
            "PHALANX_LOG_FORMAT": "json",
            **(env or {}),
        }
        self.process: subprocess.Popen[bytes] | None = None

    def spawn(self) -> None:
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen([sys.executable, "-m", self._module], env=self._env, stdout=log, stderr=log)

    async def ready(self) -> dict[str, int]:
        """Wait for the ready file; a process that ended first has been killed by its failpoint, which is fine."""
        assert self.process is not None
        async with asyncio.timeout(START_LIMIT_S):
            while not self.ready_file.exists():
                if self.process.poll() is not None:
                    return {}
                await asyncio.sleep(0.02)
        return dict(json.loads(self.ready_file.read_text()))

    async def ended(self, limit_s: float) -> int | None:
        """Exit status, or None when it still runs after `limit_s`."""
        assert self.process is not None
        loop = asyncio.get_running_loop()
        until_s = loop.time() + limit_s
        while self.process.poll() is None and loop.time() < until_s:  # noqa: ASYNC110 - another process ends
            await asyncio.sleep(0.02)
        return self.process.poll()

    def end(self) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=15)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")


class ScriptedAgent:
    """Obeys at once and never lies. `commands` holds what the stream republished, in order."""

    def __init__(self, bus: JetStreamBus, *, node_id: str, job_id: str, spec: JobSpec, connection: Connection) -> None:
        self.bus = bus
        self.connection = connection
        self.node_id = node_id
        self.job_id = job_id
        self.spec = spec
        self.instance_id = f"{node_id}/1"
        self.clock = SystemClock()
        self.port = 29_500
        self.commands: list[Command] = []
        self.obeyed: set[str] = set()
        self.messages: dict[str, Command] = {}
        """By message id: what is stored twice has two."""
        self.changed = asyncio.Event()
        self._count = 0

    async def join(self) -> None:
        await self.bus.answer(what="ping", key=self.node_id, reply=self._pong)
        await self.bus.listen(messages=[StopWorkers, StartWorkers, EndJob], handler=self._on_command, key=self.job_id)
        await self.report()

    async def report(self) -> None:
        await self.publish(
            AgentReported(
                node_id=self.node_id,
                instance_id=self.instance_id,
                job_id=self.job_id,
                spec=self.spec,
                address="127.0.0.1",
                master_port=self.port,
                phase=AgentPhase.READY,
                topology_version=0,
                pid=os.getpid(),
                host="host",
                reported_at=self.clock.now(),
            )
        )

    async def beat(self) -> None:
        await self.publish(
            AgentHeartbeat(
                node_id=self.node_id,
                instance_id=self.instance_id,
                job_id=self.job_id,
                phase=AgentPhase.RUNNING,
                topology_version=1,
            )
        )

    async def publish(self, payload: Payload) -> None:
        self._count += 1
        envelope = seal(
            payload, source=f"/{self.node_id}", cause_id=self.instance_id, time=self.clock.now(), ordinal=self._count
        )
        await self.bus.publish(envelope)

    async def die(self, rank: int, version: int) -> None:
        await self.publish(
            WorkerExited(
                node_id=self.node_id,
                instance_id=self.instance_id,
                job_id=self.job_id,
                topology_version=version,
                ordinal=0,
                exit=ExitStatus(rank=rank, local_rank=0, pid=1, signal=9),
                ran_s=1.0,
                observed_at=self.clock.now(),
            )
        )

    async def _pong(self, _question: bytes) -> bytes:
        return b"{}"

    async def _on_command(self, delivery: Delivery) -> None:
        await self.obey(delivery)

    async def catch_up(self) -> None:
        """What a real agent does every few seconds: the newest stored command, pushed or not."""
        kinds: list[type[Payload]] = [StopWorkers, StartWorkers, EndJob]
        for delivery in (await self.bus.last_commands(key=self.job_id, messages=kinds))[-1:]:
            await self.obey(delivery)

    async def obey(self, delivery: Delivery) -> None:
        command: Command = delivery.envelope.data
        self.commands.append(command)
        self.messages[delivery.envelope.id] = command
        version = command.fence.topology_version
        if command.operation_id not in self.obeyed:
            self.obeyed.add(command.operation_id)
            if isinstance(command, StopWorkers):
                self.port += 1
                await self.publish(self._stopped(command, version))
            elif isinstance(command, StartWorkers):
                await self.publish(self._started(command, version))
        self.changed.set()

    def _stopped(self, command: StopWorkers, version: int) -> WorkersStopped:
        return WorkersStopped(
            node_id=self.node_id,
            instance_id=self.instance_id,
            job_id=self.job_id,
            topology_version=version,
            operation_id=command.operation_id,
            master_port=self.port,
            duration_s=0.0,
        )

    def _started(self, command: StartWorkers, version: int) -> WorkersStarted:
        return WorkersStarted(
            node_id=self.node_id,
            instance_id=self.instance_id,
            job_id=self.job_id,
            topology_version=version,
            operation_id=command.operation_id,
            pids=(1, 2),
            source="nursery",
            duration_s=0.0,
        )

    def stored(self, kind: type[Command]) -> list[int]:
        """Versions of the stored commands of one kind, one entry a message."""
        return sorted(c.fence.topology_version for c in self.messages.values() if isinstance(c, kind))

    def has(self, kind: type[Command], version: int) -> bool:
        return any(isinstance(c, kind) and c.fence.topology_version == version for c in self.commands)

    async def until(self, kind: type[Command], version: int, limit_s: float) -> bool:
        """Wait for a command, looking at the stored ones now and then as a real agent does."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + limit_s
        while not self.has(kind, version) and loop.time() < until_s:
            self.changed.clear()
            try:
                async with asyncio.timeout(0.25):
                    await self.changed.wait()
            except TimeoutError:
                await self.catch_up()
        return self.has(kind, version)


def settings_for(nats_url: str, cluster: str) -> BusSettings:
    return BusSettings.model_validate({"nats_url": nats_url, "cluster": cluster, "publish_limit_s": 5.0})


@contextlib.asynccontextmanager
async def agents(nats_url: str, cluster: str, *nodes: str, spec: JobSpec) -> AsyncIterator[list[ScriptedAgent]]:
    """Scripted agents of one job on one connection each."""
    cast: list[ScriptedAgent] = []
    settings = settings_for(nats_url, cluster)
    try:
        for node in nodes:
            connection = await connect(settings, name=node)
            await ensure_streams(connection, settings)
            bus = JetStreamBus(connection, cluster=cluster, source=f"/{node}")
            cast.append(ScriptedAgent(bus, node_id=node, job_id="job-1", spec=spec, connection=connection))
        yield cast
    finally:
        for agent in cast:
            await agent.connection.close()


def verdict(agent: ScriptedAgent, version: int) -> FaultClassified:
    return FaultClassified(
        fault_id=f"fault-{version}",
        job_id=agent.job_id,
        topology_version=version,
        attribution=Attribution.PLATFORM,
        cause="process_killed",
        confidence=0.8,
        action=Action.RESTART_PROCESS,
        reasons=(Reason(rule_id="killed", sentence="SIGKILL without an OOM record"),),
        summary="rank 0 was killed",
        classified_at=agent.clock.now(),
    )
