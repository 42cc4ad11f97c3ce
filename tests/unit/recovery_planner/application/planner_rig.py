"""A planner on the memory bus and virtual time, with scripted agents that obey, and ways to kill everybody."""

import asyncio
from collections import Counter

from planner_rig_node import JOB as JOB
from planner_rig_node import Node

from fault_contracts.agent import (
    JobSpec,
    WorkerExited,
)
from fault_contracts.cluster_policy import ClusterPolicy
from fault_contracts.commands import Command, StartWorkers
from fault_contracts.envelope import seal
from fault_contracts.faults import Action, Attribution, FaultClassified
from fault_contracts.payload import Payload, Reason
from fault_contracts.recovery import IncidentOpened
from fault_contracts.registry import Stream
from recovery_planner.adapters.gang_codec import decode_gang
from recovery_planner.adapters.kv_gangs import KvCheckpoints, KvGangs
from recovery_planner.adapters.kv_lives import KvNodeLives
from recovery_planner.adapters.kv_nodes import KvNodeStandings
from recovery_planner.adapters.pools import MakePool
from recovery_planner.application.planner import Planner, World, assemble
from recovery_planner.application.watch_agents import Patience
from recovery_planner.domain.gang import Gang
from recovery_planner.domain.member import Standing
from recovery_planner.domain.policy import Policy
from service_kit.errors import BusUnavailable
from service_kit.ports import Delivery, Entry, KeyValue
from service_kit.testing.memory_broker import MemoryBroker, Trouble
from service_kit.testing.memory_bus import MemoryBus
from service_kit.testing.memory_key_value import MemoryKeyValue
from service_kit.testing.virtual_clock import LoopClock


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
            nodes=KvNodeStandings(LifeKv(rig.standings, self)),
            failpoints=failpoints,
            instance_id=name,
            lives=KvNodeLives(LifeKv(rig.remedies, self)),
            pool=rig.pool,
        )
        self.planner: Planner = assemble(
            world, policy=rig.policy, patience=Patience(), ended_kept_s=3_600, cluster_policy=rig.cluster_policy
        )
        self.known = asyncio.Event()
        self.task = asyncio.create_task(self.planner.lead.run(self.planner.duties, self.known), name=name)

    def kill(self) -> None:
        self.dead = True
        self.bus.kill()

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


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
        cluster_policy: ClusterPolicy | None = None,
        pool: MakePool | None = None,
    ) -> None:
        self.clock = LoopClock()
        self.broker = MemoryBroker(self.clock, seed=seed, trouble=trouble)
        self.gangs, self.checkpoints, self.standings = MemoryKeyValue(), MemoryKeyValue(), MemoryKeyValue()
        self.remedies = MemoryKeyValue()
        self.policy, self.cluster_policy, self.pool = policy or Policy(), cluster_policy, pool
        self.spec = JobSpec(nnodes=nnodes, nproc_per_node=1, restarts_max=restarts_max)
        self.nodes: dict[str, Node] = {}
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
        entry = self.gangs._entries.get(JOB)
        members = decode_gang(entry.value).members if entry else {}
        for other in self.nodes.values():
            member = members.get(other.node_id)
            left_behind = member is None or member.standing is Standing.LOST
            if other is not node and not other.dead and not left_behind and other.running not in (None, version):
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
