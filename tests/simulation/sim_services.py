"""The three services as processes that die and are started again: their own application code on mortal ports."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from fault_attribution.loading.rule_files import load_rules
from fault_attribution.matching.signature_matcher import SignatureMatcher
from fault_classifier.adapters.kv_evidence import KvEvidence
from fault_classifier.application.classify_fault import ClassifyFault
from fault_classifier.application.collect_evidence import MESSAGES, CollectEvidence
from fault_classifier.application.expire_verdicts import ExpireVerdicts
from fault_classifier.application.read_texts import TextReader
from fault_classifier.domain.classify import JudgePolicy
from fault_classifier.domain.neighbourhood import Neighbourhood
from fault_contracts.agent import WorkerExited
from fault_contracts.health import ConditionRaised, SignalObserved, SignalsObserved
from fault_contracts.node_actions import NodeActionReported
from fault_contracts.rank_faults import RanksFaulted
from health_ingest.adapters.check_policy_yaml import load_check_policy
from health_ingest.adapters.kv_conditions import KvConditions
from health_ingest.adapters.kv_ledger import KvLedger
from health_ingest.adapters.kv_nodes import KvNodes
from health_ingest.adapters.xid_policy_yaml import load_xid_policy
from health_ingest.application import hold_hardware
from health_ingest.application.advance_condition import AdvanceCondition
from health_ingest.application.condition_index import ConditionIndex
from health_ingest.application.end_by_reset import EndByReset
from health_ingest.application.ingest_batch import BATCH_MAX, IngestBatch
from health_ingest.application.ingest_signal import IngestSignal
from health_ingest.application.nodes_heard import NodesHeard
from health_ingest.application.sweep_conditions import SweepConditions
from health_ingest.domain.ledger import LedgerPolicy
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.rulebook import Rulebook
from recovery_planner.adapters.kv_gangs import KvCheckpoints, KvGangs
from recovery_planner.adapters.kv_lives import KvNodeLives
from recovery_planner.adapters.kv_nodes import KvNodeStandings
from recovery_planner.application import planner as planner_parts
from recovery_planner.application.watch_agents import Patience
from recovery_planner.domain.policy import Policy
from service_kit.deadlines import Deadlines
from service_kit.failpoints import Failpoints
from service_kit.ports import Delivery
from service_kit.testing.process_life import ProcessLife

if TYPE_CHECKING:
    from sim_world import World

RULES = load_rules()
MATCHER = SignatureMatcher(RULES.signatures)
CHECKS = load_check_policy(None)
XIDS = load_xid_policy()
RESCAN_S = 300.0
PLANNER_POLICY = Policy(start_deadline_s=30.0, capacity_wait_s=45.0)
"""Shorter than a cluster's, so that a story ends sooner; nothing depends on how long they are."""
RESTART_S = 1.0


class Service:
    """One place where a process of this kind runs; after a death the supervisor starts the next life."""

    kind = ""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.lives = 0
        self.life: ProcessLife | None = None
        self.defects: list[str] = []
        self.stays_dead = False
        self.restart_s = RESTART_S

    @property
    def is_up(self) -> bool:
        """A process runs."""
        return self.life is not None and not self.life.dead

    def begin(self) -> None:
        """Start a life."""
        if self.is_up:
            return
        self.lives += 1
        world = self.world
        life = ProcessLife(
            world.broker, name=f"{self.name}/{self.lives}", random=world.store_dice, trouble=world.scenario.store
        )
        self.life = life
        world.buried.append(life)
        life.on_death.append(lambda: world.note(f"{life.name} dies"))
        life.on_death.append(lambda: world.later(self.restart_s, self._again))
        self.spawn(self.run(life), life)

    def _again(self) -> None:
        if not self.stays_dead:
            self.begin()

    def spawn(self, work: Coroutine[Any, Any, None], life: ProcessLife) -> None:
        """Part of the process: when it fails, the process ends, and that is a defect."""
        task = asyncio.get_running_loop().create_task(self._guarded(work, life))
        self.world.tasks.add(task)
        task.add_done_callback(self.world.tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None], life: ProcessLife) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - whatever a service did not expect
            if life.dead:
                return
            self.defects.append(f"{life.name} ended by {type(error).__name__}: {error}")
            life.kill()

    async def run(self, life: ProcessLife) -> None:
        """Wire and work, until killed."""
        raise NotImplementedError

    def reconnected(self) -> None:
        """The bus is back after a partition."""


class PlannerService(Service):
    """recovery-planner."""

    kind = "planner"
    planner: planner_parts.Planner | None = None

    async def run(self, life: ProcessLife) -> None:
        """See Service."""
        world = self.world
        made = planner_parts.World(
            bus=life.bus,
            clock=life.clock,
            gangs=KvGangs(life.bucket(world.gangs)),
            checkpoints=KvCheckpoints(life.bucket(world.checkpoints)),
            nodes=KvNodeStandings(life.bucket(world.nodes)),
            lives=None if world.cluster is None else KvNodeLives(life.bucket(world.remedies)),
            pool=None if world.cloud is None else lambda _: world.cloud,
            failpoints=Failpoints(),
            instance_id=life.name,
        )
        planner = planner_parts.assemble(
            made,
            policy=PLANNER_POLICY,
            patience=Patience(),
            ended_kept_s=604_800.0,
            cluster_policy=world.cluster,
        )
        self.planner = planner
        await planner.lead.run(planner.duties, asyncio.Event())

    @property
    def leads(self) -> bool:
        """It thinks so."""
        return self.is_up and self.planner is not None and self.planner.lead.is_leader

    def failed(self) -> str | None:
        """What is wrong with its background work."""
        return self.planner.duties.failed() if self.is_up and self.planner is not None else None

    def reconnected(self) -> None:
        """See Service."""
        if self.planner is not None and self.life is not None:
            self.spawn(self.planner.watch.after_reconnect(), self.life)


class ClassifierService(Service):
    """fault-classifier."""

    kind = "classifier"

    async def run(self, life: ProcessLife) -> None:
        """See Service."""
        clock, bus, failpoints = life.clock, life.bus, Failpoints()
        records, deadlines, around = KvEvidence(life.bucket(self.world.evidence)), Deadlines(clock), Neighbourhood()
        classify = ClassifyFault(
            records=records,
            bus=bus,
            clock=clock,
            deadlines=deadlines,
            policy=JudgePolicy(verdict_wait_s=1.8),
            book=lambda: RULES.causes,
            neighbourhood=around,
            failpoints=failpoints,
        )
        collect = CollectEvidence(
            classify=classify,
            neighbourhood=around,
            texts=TextReader(lambda: MATCHER),
            clock=clock,
            failpoints=failpoints,
        )
        expire = ExpireVerdicts(
            classify=classify,
            records=records,
            deadlines=deadlines,
            clock=clock,
            rescan_s=RESCAN_S,
            history_s=1_209_600.0,
        )
        await bus.consume(durable="fault-classifier", messages=MESSAGES, handler=collect.handle, reclaim=True)
        self.spawn(expire.rescan_forever(), life)
        await expire.run()


class IngestService(Service):
    """health-ingest, without Redis and without its door for other systems."""

    kind = "ingest"

    async def run(self, life: ProcessLife) -> None:
        """See Service."""
        clock, bus, failpoints, policy = life.clock, life.bus, Failpoints(), ConditionPolicy()
        records, deadlines = KvConditions(life.bucket(self.world.conditions)), Deadlines(clock)
        index, heard = ConditionIndex(), NodesHeard()
        advance = AdvanceCondition(
            records=records, bus=bus, clock=clock, deadlines=deadlines, failpoints=failpoints, index=index
        )
        ingest = IngestSignal(advance=advance, clock=clock, policy=policy, failpoints=failpoints)
        batches = IngestBatch(
            advance=advance,
            resets=EndByReset(advance=advance, index=index, clock=clock, policy=policy),
            rulebook=Rulebook(limits=policy, checks=CHECKS, driver=XIDS),
            index=index,
            heard=heard,
            clock=clock,
            policy=policy,
            failpoints=failpoints,
        )
        sweep = SweepConditions(
            advance=advance,
            records=records,
            deadlines=deadlines,
            clock=clock,
            policy=policy,
            rescan_s=RESCAN_S,
            index=index,
            heard=heard,
        )
        hardware = hold_hardware.assemble(
            bus=bus,
            clock=clock,
            ledger=KvLedger(life.bucket(self.world.ledger)),
            nodes=KvNodes(life.bucket(self.world.nodes)),
            policy=LedgerPolicy(),
            failpoints=failpoints,
            rescan_s=RESCAN_S,
        )

        async def hear(delivery: Delivery) -> None:
            index.heard(delivery.envelope.data)

        for name, message in {"exits": WorkerExited, "rank-faults": RanksFaulted}.items():
            await bus.consume(durable=f"health-ingest-{name}", messages=[message], handler=ingest.handle, reclaim=True)
        await bus.consume_batches(
            durable="health-ingest-signals",
            messages=[SignalObserved, SignalsObserved, NodeActionReported],
            handler=batches.handle,
            batch_max=BATCH_MAX,
            reclaim=True,
        )
        await bus.listen(messages=[ConditionRaised], handler=hear)
        await hardware.start()
        for work in (sweep.rescan_forever(), hardware.ledger.run(), hardware.ledger.rescan_forever()):
            self.spawn(work, life)
        await sweep.run()
