"""From a fault to the published start: what of it the planner takes, on the memory bus and on a real nats-server."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from fault_contracts.agent import RankLabelsReported
from fault_contracts.commands import StartWorkers, StopWorkers
from fault_contracts.rank_rows import rows_of
from fault_contracts.registry import Bucket
from phalanx_cli.stack.nats_server import NatsServer, SyncInterval
from planner_bench.fleet import DOMAIN_NODES, JOB, NPROC, Fleet
from recovery_planner.adapters.kv_gangs import KvCheckpoints, KvGangs
from recovery_planner.adapters.kv_nodes import KvNodeStandings
from recovery_planner.application.planner import Planner, World, assemble
from recovery_planner.application.watch_agents import Patience
from recovery_planner.domain.gang import Gang, Phase
from recovery_planner.domain.policy import Policy
from recovery_planner.domain.rank_labels import RanksLabelled
from service_kit.clock import SystemClock
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.jetstream.key_value import JetStreamKeyValue
from service_kit.jetstream.streams import ensure_streams
from service_kit.ports import Bus, KeyValue
from service_kit.settings import BusSettings
from service_kit.testing.memory_broker import MemoryBroker
from service_kit.testing.memory_bus import MemoryBus
from service_kit.testing.memory_key_value import MemoryKeyValue

LIMIT_S = 300.0
PATIENT = Patience(heartbeat_missing_s=3_600, heartbeat_lost_s=7_200, agent_absent_grace_s=3_600, recheck_s=600)
"""The fleet sends no heartbeats and answers no pings: who is there is not what is measured."""
POLICY = Policy(verdict_deadline_s=600.0, stop_margin_s=600.0, start_deadline_s=3_600.0)
"""The verdict comes when the bench says so."""
SPARES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The two connections: the planner's and the fleet's, and the planner's buckets."""

    planner_bus: Bus
    fleet_bus: Bus
    buckets: Callable[[Bucket], KeyValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One recovery, in seconds.

    Attributes:
        stop_s: the rank's death published → StopWorkers heard.
        start_s: the verdict published, with all nodes stopped → StartWorkers heard.
        reports_s: StopWorkers heard → the planner has taken in the reports of all nodes. Not a decision.
    """

    stop_s: float
    start_s: float
    reports_s: float

    @property
    def decision_s(self) -> float:
        """What the planner takes beside waiting for others."""
        return self.stop_s + self.start_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """All rounds of one size and bus."""

    bus: str
    nnodes: int
    rounds: tuple[Round, ...]

    def median_s(self, of: Callable[[Round], float]) -> float:
        """The median over the rounds."""
        return statistics.median(of(each) for each in self.rounds)


@asynccontextmanager
async def memory_stage() -> AsyncIterator[Stage]:
    """Everything in this process."""
    broker = MemoryBroker(SystemClock())
    buckets = {bucket: MemoryKeyValue() for bucket in Bucket}
    yield Stage(
        planner_bus=MemoryBus(broker, name="planner"),
        fleet_bus=MemoryBus(broker, name="fleet"),
        buckets=buckets.__getitem__,
    )
    await broker.close()


@asynccontextmanager
async def nats_stage(folder: Path, sync: SyncInterval) -> AsyncIterator[Stage]:
    """A nats-server of our own; the fleet and the planner share this process and its core."""
    server = NatsServer(data_dir=folder / "nats", sync_interval=sync)
    server.start()
    settings = BusSettings(nats_url=server.url, cluster="bench", stream_bytes_max=1 << 30)
    one, two = await connect(settings, name="planner"), await connect(settings, name="fleet")
    try:
        await ensure_streams(one, settings)
        yield Stage(
            planner_bus=JetStreamBus(one, cluster="bench"),
            fleet_bus=JetStreamBus(two, cluster="bench"),
            buckets=lambda bucket: JetStreamKeyValue(one, bucket, cluster="bench"),
        )
    finally:
        await one.close()
        await two.close()
        server.stop()


async def measure(world: Stage, *, bus: str, nnodes: int, rounds: int) -> Decisions:
    """Form a gang, then break and mend it: in each round a node is blamed and a spare takes its place."""
    clock = SystemClock()
    planner = assemble(
        World(
            bus=world.planner_bus,
            clock=clock,
            gangs=KvGangs(world.buckets(Bucket.GANGS)),
            checkpoints=KvCheckpoints(world.buckets(Bucket.CHECKPOINTS)),
            nodes=KvNodeStandings(world.buckets(Bucket.NODES)),
            failpoints=_NoFailpoints(),
            instance_id="bench",
        ),
        policy=POLICY,
        patience=PATIENT,
        ended_kept_s=3_600,
    )
    fleet = Fleet(world.fleet_bus, nnodes=nnodes, spares=min(SPARES, rounds + 1))
    leading = asyncio.Event()
    lead = asyncio.create_task(planner.lead.run(planner.duties, leading))
    try:
        await asyncio.wait_for(leading.wait(), LIMIT_S)
        await fleet.listen()
        await fleet.join()
        _, start = await _start(fleet)
        await fleet.started(start, fleet.seats)
        await _until(planner, lambda gang: gang.phase is Phase.RUNNING)
        await _label_ranks(planner, fleet)
        found = [await _round(planner, fleet, number) for number in range(rounds)]
    finally:
        lead.cancel()
        await asyncio.gather(lead, return_exceptions=True)
        await fleet.close()
    return Decisions(bus=bus, nnodes=nnodes, rounds=tuple(found))


async def _round(planner: Planner, fleet: Fleet, number: int) -> Round:
    victim = fleet.seats[(number * 3 + 1) % len(fleet.seats)]
    died_s = await fleet.die(victim)
    stop_s, stop = await asyncio.wait_for(fleet.heard.get(), LIMIT_S)
    assert isinstance(stop, StopWorkers), "a death stops the gang first"
    await fleet.stopped(stop, fleet.seats)
    await _until(planner, lambda gang: gang.phase is Phase.DECIDING)
    reports_s = time.perf_counter() - stop_s
    judged_s = await fleet.blame(victim)
    start_s, start = await _start(fleet)
    await fleet.started(start, fleet.seats)
    await _until(planner, lambda gang: gang.phase is Phase.RUNNING)
    return Round(stop_s=stop_s - died_s, start_s=start_s - judged_s, reports_s=reports_s)


async def _start(fleet: Fleet) -> tuple[float, StartWorkers]:
    heard_s, start = await asyncio.wait_for(fleet.heard.get(), LIMIT_S)
    assert isinstance(start, StartWorkers), f"a start was due, {type(start).__name__} came"
    fleet.take_over({int(row.node_rank): row.node_id for row in rows_of(start)}, start.fence.topology_version)
    return heard_s, start


async def _until(planner: Planner, holds: Callable[[Gang], bool]) -> None:
    """Until the record is so, written, and owes nothing."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            gang = planner.advance.gang_of(JOB)
            if gang is not None and holds(gang) and not gang.pending and planner.advance.is_idle(JOB):
                return
            await asyncio.sleep(0.001)


async def _label_ranks(planner: Planner, fleet: Fleet) -> None:
    """As a job of tensor 8, pipeline 8 and data parallel ranks says it; handed in together, as they come in live."""
    data = max(1, len(fleet.seats) // DOMAIN_NODES)
    reports = tuple(
        RankLabelsReported(
            node_id=node,
            job_id=JOB,
            topology_version=fleet.version,
            rank=place * NPROC + local,
            labels={"tp": str(local), "dp": str(place % data), "pp": str(place // data)},
        )
        for place, node in enumerate(fleet.seats)
        for local in range(NPROC)
    )
    await planner.advance.handle(JOB, RanksLabelled(reports=reports))


class _NoFailpoints:
    def reach(self, name: str) -> None:
        """Nothing is armed."""
