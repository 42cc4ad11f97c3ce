"""The stage: one bus, the buckets, the services' processes, the agents, and who is told of what happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from random import Random

from sim_agent import Disk, SimAgent
from sim_events import BreakerWritten, FaultDone, GangWritten, LifeWritten, MessageStored, SimEvent
from sim_hosts import Cloud, Host
from sim_poison import Poison
from sim_scenario import Scenario
from sim_services import ClassifierService, IngestService, PlannerService, Service
from sim_training import Training

from fault_contracts.agent import JobSpec
from fault_contracts.cluster_policy import ClusterPolicy
from fault_contracts.envelope import open_envelope, seal
from fault_contracts.payload import Payload
from fault_contracts.policy import RecoveryPolicy
from fault_contracts.remediation import BreakerState
from recovery_planner.adapters.gang_codec import decode_gang
from recovery_planner.adapters.kv_lives import NODE
from recovery_planner.adapters.life_codec import decode_breaker, decode_life
from recovery_planner.domain.gang import Gang
from recovery_planner.domain.node_life import NodeLife
from service_kit.errors import TransientError
from service_kit.testing.memory_broker import MemoryBroker
from service_kit.testing.memory_bus import MemoryBus
from service_kit.testing.memory_key_value import MemoryKeyValue
from service_kit.testing.memory_records import Record
from service_kit.testing.process_life import ProcessLife
from service_kit.testing.virtual_clock import LoopClock

BARRIER_S = 3.0
Watcher = Callable[[SimEvent], None]


class GangBucket(MemoryKeyValue):
    """Gang records; each write is shown before anybody can read it."""

    def __init__(self, told: Callable[[GangWritten], None]) -> None:
        super().__init__()
        self._told = told
        self.gangs: dict[str, Gang] = {}

    def _put(self, key: str, value: bytes) -> int:
        gang = decode_gang(value)
        self._told(GangWritten(before=self.gangs.get(key), gang=gang))
        self.gangs[key] = gang
        return super()._put(key, value)


class RemedyBucket(MemoryKeyValue):
    """Records of nodes and of the breaker; each write is shown before anybody can read it."""

    def __init__(self, told: Callable[[SimEvent], None]) -> None:
        super().__init__()
        self._told = told
        self._breaker = BreakerState.CLOSED
        self.lives: dict[str, NodeLife] = {}

    def _put(self, key: str, value: bytes) -> int:
        if key.startswith(NODE):
            life = decode_life(value)
            self.lives[life.node_id] = life
            self._told(LifeWritten(life=life))
        else:
            state = decode_breaker(value).state
            self._told(BreakerWritten(before=self._breaker, state=state))
            self._breaker = state
        return super()._put(key, value)


class World:
    """Everything that a scenario acts on. Times are seconds since the start."""

    def __init__(self, scenario: Scenario, *, watchers: list[Watcher], trace: Callable[[str], None] | None) -> None:
        self.scenario = scenario
        self.clock = LoopClock()
        self.dice = Random(f"{scenario.seed}/world")
        self.store_dice = Random(f"{scenario.seed}/store")
        self.broker = MemoryBroker(self.clock, seed=scenario.seed, trouble=scenario.network)
        self.broker.on_stored.append(self._stored)
        self.watchers = watchers
        self._trace = trace
        self.gangs = GangBucket(self.saw)
        self.remedies = RemedyBucket(self.saw)
        self.cluster = ClusterPolicy.model_validate(json.loads(scenario.cluster)) if scenario.cluster else None
        pool = None if self.cluster is None else self.cluster.pool
        self.cloud = Cloud(self, pool) if pool is not None and pool.kind == "simulated" else None
        self.hosts: dict[str, Host] = {}
        self.came_s: dict[str, float] = {}
        self.checkpoints, self.nodes, self.evidence = MemoryKeyValue(), MemoryKeyValue(), MemoryKeyValue()
        self.conditions, self.ledger = MemoryKeyValue(), MemoryKeyValue()
        self.plans = {job.name: job for job in scenario.jobs}
        self.jobs = list(self.plans)
        self.specs = {
            job.name: JobSpec(
                nnodes=job.nodes,
                nproc_per_node=job.nproc,
                spares=job.spares,
                restarts_max=job.restarts,
                window_s=job.window_s,
                barrier_s=BARRIER_S,
                policy=RecoveryPolicy.model_validate(json.loads(job.policy)) if job.policy else None,
            )
            for job in scenario.jobs
        }
        self.training = Training(self)
        self.poison = Poison(self)
        self.agents: dict[str, SimAgent] = {}
        self._of_job: dict[str, dict[str, SimAgent]] = {job.name: {} for job in scenario.jobs}
        self.disks: dict[str, Disk] = {}
        self.gone: set[str] = set()
        """Nodes that do not come back."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.buried: list[ProcessLife] = []
        names = ["planner-1", "planner-2", "planner-3"][: scenario.planners]
        self.planners = [PlannerService(self, name) for name in names]
        self.services: list[Service] = [
            *self.planners,
            IngestService(self, "ingest"),
            ClassifierService(self, "classifier"),
        ]

    # --------------------------------------------------------------------------------------------- who is told

    def saw(self, event: SimEvent) -> None:
        """Something happened."""
        if self._trace is not None and not isinstance(event, MessageStored | GangWritten | LifeWritten):
            self.note(str(event))
        for watcher in self.watchers:
            watcher(event)

    def note(self, text: str) -> None:
        """For the readable trace."""
        if self._trace is not None:
            self._trace(f"{self.clock.monotonic_s():10.3f}  {text}")

    def _stored(self, record: Record) -> None:
        envelope = open_envelope(record.body)
        if self._trace is not None:
            self.note(f"{record.stream}: {type(envelope.data).__name__} {_gist(envelope.data)}")
        for watcher in self.watchers:
            watcher(MessageStored(stream=str(record.stream), sequence=record.sequence, envelope=envelope))

    # -------------------------------------------------------------------------------------------------- acting

    def begin(self) -> None:
        """Start everything at once."""
        for service in self.services:
            service.begin()
        for job in self.scenario.jobs:
            for node_id in job.agents:
                self.arrive(job.name, node_id)
        self.spawn(self.training.run())

    def arrive(self, job: str, node_id: str, board: str = "") -> None:
        """A machine with its host role and the job's agent."""
        self.disks[node_id] = Disk()
        self.came_s[node_id] = self.clock.monotonic_s()
        host = self.hosts[node_id] = Host(self, job, node_id, board or f"board-{node_id}")
        host.report()
        if self.cluster is not None:
            self.spawn(host.run())
        if not board:
            self.start_agent(job, node_id)
        elif self.agents_of(job):
            # An agent is started for a job that is there, once the machine is up.
            self.later(3.0, lambda: self.start_agent(job, node_id))

    def start_agent(self, job: str, node_id: str) -> None:
        """Another life of the agent of a node that is there."""
        old = self.agents.get(node_id)
        if node_id in self.gone or (old is not None and not old.dead):
            return
        agent = SimAgent(self, job, node_id, 1 if old is None else old.life + 1, self.disks[node_id])
        agent.clock_off_s = 0.0 if old is None else old.clock_off_s
        self.agents[node_id] = self._of_job[job][node_id] = agent
        self.note(f"{agent.instance_id} begins")
        agent.begin()

    def agents_of(self, job: str) -> list[SimAgent]:
        """Those that live."""
        return [agent for agent in self._of_job.get(job, {}).values() if not agent.dead]

    def holder(self, job: str, rank: int) -> SimAgent | None:
        """The agent whose node runs a rank now."""
        found = [agent for agent in self.agents_of(job) if rank in agent.ranks]
        return max(found, key=lambda agent: agent.version, default=None)

    def tell(self, payload: Payload, cause: str = "") -> None:
        """A host role says something, again and again until it is stored."""
        node_id: str = payload.node_id  # type: ignore[attr-defined]
        name = f"host-{node_id}"
        cause = cause or f"{name}/{type(payload).__name__}/{self.clock.monotonic_s()}"
        envelope = seal(payload, source=f"/{name}", cause_id=cause, time=self.clock.now())
        bus = MemoryBus(self.broker, name=name)

        async def until_stored() -> None:
            while True:
                try:
                    await bus.publish(envelope)
                except TransientError:
                    await self.clock.sleep(0.3)
                else:
                    return

        self.spawn(until_stored())

    def cut_off(self, name: str) -> None:
        """A process reaches nobody, until `heal`."""
        self.broker.partitioned.add(name)

    def heal(self, name: str) -> None:
        """It does again, and finds out."""
        if name not in self.broker.partitioned:
            return
        self.broker.heal(name)
        self.note(f"{name} is back on the bus")
        if name in self.agents and not self.agents[name].dead:
            self.agents[name].reconnected()
        for service in self.services:
            if service.is_up and service.life is not None and service.life.name == name:
                service.reconnected()

    def is_drained(self) -> bool:
        """Whatever was said has been delivered and acknowledged, and nothing comes again."""
        said = any(agent.disk.outbox for agent in self.agents.values() if not agent.dead)
        return not said and self.broker.is_drained()

    def later(self, delay_s: float, act: Callable[[], object]) -> None:
        """Do something after a while."""

        async def wait() -> None:
            await self.clock.sleep(delay_s)
            act()

        self.spawn(wait())

    def spawn(self, work: object) -> None:
        """Something that ends with the world."""
        task = asyncio.get_running_loop().create_task(work)  # type: ignore[arg-type]
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def fault_done(self, verb: str, hit: str) -> None:
        """For whoever keeps the truth."""
        self.saw(FaultDone(verb=verb, hit=hit))

    async def close(self) -> None:
        """End all tasks."""
        for service in self.services:
            service.stays_dead = True
        for life in self.buried:
            life.on_death.clear()
            life.bury()
        for agent in self.agents.values():
            agent.kill()
        await self.broker.close()


def _gist(payload: Payload) -> str:
    told = payload.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    for name in ("spec", "reasons", "expires_at", "summary", "condition", "decide", "counter_evidence", "alternatives"):
        told.pop(name, None)
    if isinstance(told.get("reason"), dict):
        told["reason"] = told["reason"]["sentence"]
    return json.dumps(told, separators=(",", ":"))[:400]
