"""A planner on the memory bus and virtual time, with scripted agents that obey, and ways to kill everybody."""

import asyncio
from collections import Counter

from fault_contracts.agent import (
    AgentHeartbeat,
    AgentLeft,
    AgentPhase,
    AgentReported,
    CheckpointReported,
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
from fault_contracts.recovery import IncidentOpened
from fault_contracts.registry import Stream
from recovery_planner.adapters.kv_gangs import KvCheckpoints, KvGangs
from recovery_planner.application.planner import Planner, World, assemble
from recovery_planner.application.watch_agents import Patience
from recovery_planner.domain.gang import Gang
from recovery_planner.domain.policy import Policy
from service_kit.errors import BusUnavailable, TransientError
from service_kit.ports import Delivery, Entry, KeyValue
from service_kit.testing.memory_broker import MemoryBroker, Trouble
from service_kit.testing.memory_bus import MemoryBus
from service_kit.testing.memory_key_value import MemoryKeyValue
from service_kit.testing.virtual_clock import LoopClock

JOB = "job-1"


class NoFailpoints:
    """Nothing is armed."""

    def reach(self, name: str) -> None:
        del name


class Killed(BaseException):
    """The process is gone: nothing after this instruction runs."""


class KillAt:
    """Kills one planner life the n-th time it reaches a place (any place when `name` is empty)."""

    def __init__(self, name: str, n: int) -> None:
        self.name, self.left, self.victim = name, n, None
        self.reached: Counter[str] = Counter()

    def reach(self, name: str) -> None:
        self.reached[name] += 1
        if self.name in ("", name):
            self.left -= 1
            if self.left == 0:
                assert self.victim is not None
                self.victim.kill()
                raise Killed


class LifeKv:
    """A bucket as one process sees it: a dead process writes nothing more, and its calls never return."""

    def __init__(self, bucket: MemoryKeyValue, life: "PlannerLife") -> None:
        self._bucket, self._life = bucket, life

    async def _alive(self) -> None:
        await asyncio.sleep(0)
        if self._life.dead:
            await asyncio.get_running_loop().create_future()

    async def get(self, key: str) -> Entry | None:
        await self._alive()
        return await self._bucket.get(key)

    async def create(self, key: str, value: bytes) -> int:
        await self._alive()
        return await self._bucket.create(key, value)

    async def update(self, key: str, value: bytes, revision: int) -> int:
        await self._alive()
        return await self._bucket.update(key, value, revision)

    async def delete(self, key: str) -> None:
        await self._alive()
        await self._bucket.delete(key)

    async def keys(self) -> list[str]:
        await self._alive()
        return await self._bucket.keys()


class PlannerLife:
    """One life of a planner process."""

    def __init__(self, rig: "Rig", name: str, failpoints: NoFailpoints | KillAt) -> None:
        self.dead = False
        self.name = name
        self.bus = MemoryBus(rig.broker, name=name)
        if isinstance(failpoints, KillAt):
            failpoints.victim = self
        gangs: KeyValue = LifeKv(rig.gangs, self)
        checkpoints: KeyValue = LifeKv(rig.checkpoints, self)
        world = World(
            bus=self.bus,
            clock=rig.clock,
            gangs=KvGangs(gangs),
            checkpoints=KvCheckpoints(checkpoints),
            failpoints=failpoints,
            instance_id=name,
        )
        self.planner: Planner = assemble(world, policy=rig.policy, patience=Patience(), ended_kept_s=3_600)
        self.known = asyncio.Event()
        self.task = asyncio.create_task(self.planner.lead.run(self.planner.duties, self.known), name=name)

    def kill(self) -> None:
        self.dead = True
        self.bus.kill()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Node:
    """A scripted agent: reports, obeys by fence, answers pings, beats, catches up. Its ranks are a version number."""

    def __init__(self, rig: "Rig", node_id: str, life: int = 1) -> None:
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
        self.send(
            AgentReported(
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
                phase=AgentPhase.READY,
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
                await self._obey(max((d.envelope.data for d in found), key=_point))

    async def _pong(self, _question: bytes) -> bytes:
        return b"{}"

    async def _pushed(self, delivery: Delivery) -> None:
        await self._obey(delivery.envelope.data)

    async def _obey(self, command: Command) -> None:
        async with self._lock:
            if self.dead:
                return
            if command.operation_id in self.outcomes:
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
        if command.base_version == 0:
            self.rig.tables[self.instance_id] = {row.node_rank: row.node_id for row in command.rows}
        else:
            table = self.rig.tables.setdefault(self.instance_id, {})
            table.update({row.node_rank: row.node_id for row in command.rows})
        if self.node_id not in self.rig.tables[self.instance_id].values():
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


class Rig:
    """The stage: broker, buckets, clock, and the nodes of one job."""

    def __init__(
        self,
        *,
        seed: int = 0,
        trouble: Trouble | None = None,
        nnodes: int = 2,
        restarts_max: int = 1_000,
        policy: Policy | None = None,
        judge: bool = True,
    ) -> None:
        self.clock = LoopClock()
        self.broker = MemoryBroker(self.clock, seed=seed, trouble=trouble)
        self.gangs, self.checkpoints = MemoryKeyValue(), MemoryKeyValue()
        self.policy = policy or Policy()
        self.spec = JobSpec(nnodes=nnodes, nproc_per_node=1, restarts_max=restarts_max)
        self.nodes: dict[str, Node] = {}
        self.tables: dict[str, dict[int, str]] = {}
        self.lives: list[PlannerLife] = []
        self.broken_promises: list[str] = []
        self.judge_verdicts = judge

    async def begin(self, *nodes: str, failpoints: NoFailpoints | KillAt | None = None) -> PlannerLife:
        if self.judge_verdicts:
            judge = MemoryBus(self.broker, name="judge")
            await judge.consume(durable="judge", messages=[IncidentOpened, WorkerExited], handler=self._judge)
            self._judge_bus = judge
        life = self.planner(failpoints)
        for node in nodes:
            await self.node(node)
        return life

    def planner(self, failpoints: NoFailpoints | KillAt | None = None) -> PlannerLife:
        life = PlannerLife(self, f"planner-{len(self.lives) + 1}", failpoints or NoFailpoints())
        self.lives.append(life)
        return life

    async def node(self, node_id: str) -> Node:
        old = self.nodes.get(node_id)
        node = Node(self, node_id, 1 if old is None else old.life + 1)
        self.nodes[node_id] = node
        await node.join()
        return node

    async def publish(self, bus: MemoryBus, payload: Payload, *, cause: str, ordinal: int | str) -> None:
        """As an outbox does: until it is stored."""
        envelope = seal(payload, source=cause, cause_id=cause, time=self.clock.now(), ordinal=ordinal)
        while True:
            try:
                await bus.publish(envelope)
            except BusUnavailable:
                await self.clock.sleep(0.1)
            else:
                return

    async def _judge(self, delivery: Delivery) -> None:
        data = delivery.envelope.data
        await self.classify(data.topology_version, bus=self._judge_bus)

    async def classify(
        self, version: int, action: Action = Action.RESTART_PROCESS, *, bus: MemoryBus | None = None
    ) -> None:
        verdict = FaultClassified(
            fault_id=f"fault-{version}",
            job_id=JOB,
            topology_version=version,
            attribution=Attribution.PLATFORM,
            cause="killed",
            confidence=0.9,
            action=action,
            reasons=(Reason(rule_id="judge", sentence="because"),),
            summary="",
            classified_at=self.clock.now(),
        )
        bus = bus or MemoryBus(self.broker, name="judge-by-hand")
        await self.publish(bus, verdict, cause="judge", ordinal=version)

    # --------------------------------------------------------------------------------------------- what is seen

    def check_start(self, node: Node, version: int) -> None:
        """The promises at the moment a node starts its ranks."""
        if version in node.starts:
            self.broken_promises.append(f"{node.instance_id} started version {version} twice")
        for other in self.nodes.values():
            cut_off = other.instance_id in self.broker.partitioned
            if other is not node and not other.dead and not cut_off and other.running not in (None, version):
                self.broken_promises.append(
                    f"{node.instance_id} starts version {version} while {other.instance_id} runs {other.running}"
                )

    async def gang(self) -> Gang | None:
        stored = await KvGangs(self.gangs).load(JOB)
        return stored.gang if stored else None

    def stored(self, kind: type[Payload], stream: Stream = Stream.CONTROL) -> list[Payload]:
        return [d.envelope.data for d in self.broker.stored(stream) if isinstance(d.envelope.data, kind)]

    def versions(self, kind: type[Command] = StartWorkers) -> list[int]:
        return [command.fence.topology_version for command in self.stored(kind) if isinstance(command, Command)]

    async def until_running(self, version: int | None = None, limit_s: float = 600.0) -> Gang:
        """The record once the gang runs (at `version`) and owes nothing."""
        until_s = self.clock.monotonic_s() + limit_s
        while self.clock.monotonic_s() < until_s:
            gang = await self.gang()
            good = gang is not None and gang.phase == "running" and not gang.pending
            if gang is not None and good and version in (None, gang.table.topology_version):
                return gang
            await self.clock.sleep(0.05)
        raise AssertionError(f"not running after {limit_s:g} s: {await self.gang()}")

    async def end(self) -> None:
        for life in self.lives:
            if not life.dead:
                await life.stop()
        for node in self.nodes.values():
            node.kill()
        await self.broker.close()
