"""A broker, a store and fault-classifier on them: what the stories of its use cases are told on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fault_attribution.loading.rule_files import load_rules
from fault_attribution.matching.signature_matcher import SignatureMatcher
from fault_classifier.adapters.kv_evidence import KvEvidence, decode_record
from fault_classifier.application.classify_fault import ClassifyFault
from fault_classifier.application.collect_evidence import MESSAGES, CollectEvidence
from fault_classifier.application.expire_verdicts import ExpireVerdicts
from fault_classifier.application.read_texts import TextReader
from fault_classifier.domain.classify import JudgePolicy
from fault_classifier.domain.evidence import Generation, JobEvidence
from fault_classifier.domain.neighbourhood import Neighbourhood
from fault_contracts.agent import ExitStatus, OomKill, WorkerError
from fault_contracts.envelope import seal
from fault_contracts.faults import FaultClassified
from fault_contracts.health import Component, ConditionRaised, Tier, WorkerEvidence
from fault_contracts.payload import Payload, Reason
from fault_contracts.recovery import IncidentOpened
from fault_contracts.registry import Stream
from service_kit.deadlines import Deadlines
from service_kit.failpoints import Failpoints
from service_kit.testing.memory_broker import MemoryBroker, Trouble
from service_kit.testing.memory_bus import MemoryBus
from service_kit.testing.memory_key_value import MemoryKeyValue
from service_kit.testing.virtual_clock import LoopClock, run_virtual

HISTORY_S = 14 * 86_400.0
RULES = load_rules()
MATCHER = SignatureMatcher(RULES.signatures)


class Stage:
    """A broker, a store, and as many lives of fault-classifier as the story needs."""

    def __init__(self, *, seed: int = 0, trouble: Trouble | None = None) -> None:
        self.clock = LoopClock()
        self.broker = MemoryBroker(self.clock, seed=seed, trouble=trouble)
        self.store = MemoryKeyValue()
        self.desk = MemoryBus(self.broker, name="desk")
        self.tasks: list[asyncio.Task[None]] = []

    async def live(self, name: str = "judge") -> MemoryBus:
        bus = MemoryBus(self.broker, name=name)
        neighbourhood = Neighbourhood()
        records, deadlines, failpoints = KvEvidence(self.store), Deadlines(self.clock), Failpoints()
        classify = ClassifyFault(
            records=records,
            bus=bus,
            clock=self.clock,
            deadlines=deadlines,
            policy=JudgePolicy(verdict_wait_s=1.8),
            book=lambda: RULES.causes,
            neighbourhood=neighbourhood,
            failpoints=failpoints,
        )
        collect = CollectEvidence(
            classify=classify,
            neighbourhood=neighbourhood,
            texts=TextReader(lambda: MATCHER),
            clock=self.clock,
            failpoints=failpoints,
        )
        expire = ExpireVerdicts(
            classify=classify,
            records=records,
            deadlines=deadlines,
            clock=self.clock,
            rescan_s=300,
            history_s=HISTORY_S,
        )
        await bus.consume(durable="judge", messages=MESSAGES, handler=collect.handle)
        self.tasks += [asyncio.create_task(expire.run()), asyncio.create_task(expire.rescan_forever())]
        return bus

    async def die(self, bus: MemoryBus) -> None:
        bus.kill()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.tasks = []

    async def say(self, payload: Payload, cause: str) -> None:
        envelope = seal(payload, source="/test", cause_id=cause, time=self.clock.now())
        for _ in range(50):
            try:
                await self.desk.publish(envelope)
            except Exception:  # noqa: BLE001 - the sender repeats whatever happened
                await self.clock.sleep(0.1)
            else:
                return
        raise AssertionError("never stored")

    def words(self, job: str = "job") -> list[FaultClassified]:
        """All verdicts, provisional ones as well."""
        found = [each.envelope.data for each in self.broker.stored(Stream.FAULTS)]
        return [each for each in found if each.job_id == job]

    def verdicts(self, job: str = "job") -> list[FaultClassified]:
        return [each for each in self.words(job) if not each.provisional]

    async def job(self, job: str = "job") -> JobEvidence:
        entry = await self.store.get(job)
        assert entry is not None
        return decode_record(entry.value, entry.revision).job

    async def generation(self, job: str = "job") -> Generation:
        return (await self.job(job)).generation(1)

    async def pending(self) -> list:
        entries = [await self.store.get(key) for key in await self.store.keys()]
        return [owed for entry in entries if entry for owed in decode_record(entry.value, entry.revision).pending]


def story(told: Callable[[Stage], Awaitable[None]], **stage: object) -> None:
    async def main() -> None:
        made = Stage(**stage)
        try:
            await told(made)
        finally:
            for task in made.tasks:
                task.cancel()
            await made.broker.close()

    run_virtual(main())


def death(stage: Stage, rank: int, *, job: str = "job", signal: int | None = 9, error: str = "") -> ConditionRaised:
    return ConditionRaised(
        condition_id=f"{job}-{rank}",
        node_id=f"node-{rank // 2}",
        component=Component.PROCESS,
        check="worker_exit",
        tier=Tier.FAILURE,
        reason="it ended",
        job_id=job,
        topology_version=1,
        rank=rank,
        worker=WorkerEvidence(
            exit=ExitStatus(
                rank=rank,
                local_rank=rank % 2,
                pid=7,
                signal=signal,
                exit_code=None if signal else 1,
                oom_kill=OomKill.NO,
            ),
            error=WorkerError(type="DistNetworkError", message=error, fingerprint="f", source="stderr")
            if error
            else None,
        ),
        raised_at=stage.clock.now(),
    )


def victim(stage: Stage, rank: int, *, job: str = "job") -> ConditionRaised:
    return death(stage, rank, job=job, signal=None, error="recv failed")


def opened(stage: Stage, job: str = "job") -> IncidentOpened:
    return IncidentOpened(
        incident_id=f"incident-{job}",
        job_id=job,
        topology_version=1,
        trigger=Reason(rule_id="r", sentence="s"),
        fault_observed_at=stage.clock.now(),
        opened_at=stage.clock.now(),
    )
