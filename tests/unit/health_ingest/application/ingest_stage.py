"""A broker, a store, and as many lives of health-ingest as a story needs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

from fault_contracts.agent import WorkerExited
from fault_contracts.envelope import seal
from fault_contracts.faults import Action, Attribution
from fault_contracts.health import SignalObserved, SignalsObserved
from fault_contracts.node_actions import NodeActionReported
from fault_contracts.payload import Payload
from fault_contracts.registry import Stream
from health_ingest.adapters.kv_conditions import KvConditions, decode_record
from health_ingest.application.advance_condition import AdvanceCondition
from health_ingest.application.condition_index import ConditionIndex
from health_ingest.application.end_by_reset import EndByReset
from health_ingest.application.ingest_batch import IngestBatch
from health_ingest.application.ingest_signal import IngestSignal
from health_ingest.application.nodes_heard import NodesHeard
from health_ingest.application.sweep_conditions import SweepConditions
from health_ingest.domain.check_policy import CheckPolicy, CheckRow
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.rulebook import Rulebook
from health_ingest.domain.ruling import Clears, Weight
from health_ingest.domain.xid_rows import XidPolicy
from service_kit.deadlines import Deadlines
from service_kit.failpoints import Failpoints
from service_kit.testing.memory_broker import MemoryBroker, Trouble
from service_kit.testing.memory_bus import MemoryBus
from service_kit.testing.memory_key_value import MemoryKeyValue
from service_kit.testing.virtual_clock import LoopClock, run_virtual

ROWS = (
    CheckRow(
        check="xid_like",
        weight=Weight.FAILURE,
        clears=Clears.RESET,
        origin=Attribution.HARDWARE,
        action=Action.RESET_GPU,
        sentence="it broke",
        source="test",
    ),
    CheckRow(check="noise", weight=Weight.RECORD, clears=Clears.QUIET, quiet_s=60, sentence="shown", source="test"),
    CheckRow(
        check="event",
        weight=Weight.PROBLEM,
        window_s=math.inf,
        clears=Clears.QUIET,
        quiet_s=100,
        sentence="now and then",
        source="test",
    ),
)


class Stage:
    """A broker, a store, and as many lives of health-ingest as the story needs."""

    def __init__(self, *, seed: int = 0, trouble: Trouble | None = None) -> None:
        self.clock = LoopClock()
        self.broker = MemoryBroker(self.clock, seed=seed, trouble=trouble)
        self.store = MemoryKeyValue()
        self.desk = MemoryBus(self.broker, name="desk")
        self.tasks: list[asyncio.Task[None]] = []
        self.rows = ROWS

    async def live(self, name: str = "ingest") -> MemoryBus:
        """Start one life; its bus can be killed."""
        bus = MemoryBus(self.broker, name=name)
        policy = ConditionPolicy(tolerance_s=60)
        records, deadlines, failpoints = KvConditions(self.store), Deadlines(self.clock), Failpoints()
        index, heard = ConditionIndex(), NodesHeard()
        advance = AdvanceCondition(
            records=records, bus=bus, clock=self.clock, deadlines=deadlines, failpoints=failpoints, index=index
        )
        ingest = IngestSignal(advance=advance, clock=self.clock, policy=policy, failpoints=failpoints)
        batches = IngestBatch(
            advance=advance,
            resets=EndByReset(advance=advance, index=index, clock=self.clock, policy=policy),
            rulebook=Rulebook(limits=policy, checks=CheckPolicy(rows=self.rows), driver=XidPolicy()),
            index=index,
            heard=heard,
            clock=self.clock,
            policy=policy,
            failpoints=failpoints,
        )
        sweep = SweepConditions(
            advance=advance,
            records=records,
            deadlines=deadlines,
            clock=self.clock,
            policy=policy,
            rescan_s=300,
            index=index,
            heard=heard,
        )
        await bus.consume(durable="ingest", messages=[WorkerExited], handler=ingest.handle)
        await bus.consume_batches(
            durable="signals",
            messages=[SignalObserved, SignalsObserved, NodeActionReported],
            handler=batches.handle,
            batch_max=100,
        )
        self.tasks = [asyncio.create_task(sweep.run()), asyncio.create_task(sweep.rescan_forever())]
        return bus

    async def die(self, bus: MemoryBus) -> None:
        bus.kill()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def say(self, payload: Payload, cause: str) -> None:
        """As an agent does: again and again until it is stored."""
        envelope = seal(payload, source="/test", cause_id=cause, time=self.clock.now())
        for _ in range(50):
            try:
                await self.desk.publish(envelope)
            except Exception:  # noqa: BLE001 - the outbox repeats whatever happened
                await self.clock.sleep(0.1)
            else:
                return
        raise AssertionError("never stored")

    def heard(self, kind: type[Payload]) -> list:
        found = [each.envelope.data for each in self.broker.stored(Stream.HEALTH)]
        return [each for each in found if isinstance(each, kind)]

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


async def conditions(stage: Stage) -> dict:
    entries = [await stage.store.get(key) for key in await stage.store.keys()]
    found = [decode_record(entry.value, entry.revision).condition for entry in entries if entry]
    return {each.entity.check: each for each in found}
