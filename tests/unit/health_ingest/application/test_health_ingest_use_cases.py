"""Signals to conditions on a bus and a store that fail: nothing lost, nothing doubled, alarms kept over a restart."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from fault_contracts.agent import ExitStatus, WorkerExited
from fault_contracts.envelope import seal
from fault_contracts.faults import Action, Attribution
from fault_contracts.health import Component, ConditionCleared, ConditionRaised, Sample, SignalObserved, SignalsObserved
from fault_contracts.node_actions import ActionOutcome, NodeAction, NodeActionReported
from fault_contracts.payload import Health, Payload, Reason
from fault_contracts.registry import Stream
from health_ingest.adapters.kv_conditions import KvConditions, decode_record, encode_record
from health_ingest.application.advance_condition import AdvanceCondition
from health_ingest.application.condition_index import ConditionIndex
from health_ingest.application.end_by_reset import EndByReset
from health_ingest.application.ingest_batch import IngestBatch
from health_ingest.application.ingest_signal import IngestSignal
from health_ingest.application.nodes_heard import NodesHeard
from health_ingest.application.ports import Record
from health_ingest.application.sweep_conditions import SweepConditions
from health_ingest.domain.check_policy import CheckPolicy, CheckRow
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.rulebook import Rulebook
from health_ingest.domain.ruling import Clears, Weight
from health_ingest.domain.xid_rows import XidPolicy
from service_kit.deadlines import Deadlines
from service_kit.errors import PermanentError
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


def exited(stage: Stage, rank: int) -> WorkerExited:
    return WorkerExited(
        node_id=f"node-{rank // 2}",
        instance_id="life",
        job_id="job",
        topology_version=1,
        ordinal=0,
        exit=ExitStatus(rank=rank, local_rank=rank % 2, pid=7, signal=9),
        ran_s=1,
        observed_at=stage.clock.now(),
    )


def disk(stage: Stage, health: Health) -> SignalObserved:
    return SignalObserved(
        node_id="node-0",
        component=Component.HOST,
        component_id="/scratch",
        check="disk_space",
        health=health,
        source="statvfs",
        observed_at=stage.clock.now(),
    )


def test_a_death_becomes_a_condition_and_nothing_is_owed_afterwards() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(exited(stage, 3), "d")
        await stage.clock.sleep(1)
        (raised,) = stage.heard(ConditionRaised)
        assert (raised.rank, raised.check) == (3, "worker_exit")
        assert await stage.pending() == []
        stored = stage.broker.stored(Stream.HEALTH)[0].envelope
        assert stored.causationid == stage.broker.stored(Stream.AGENTS)[0].envelope.id

    story(told)


@pytest.mark.parametrize("seed", range(6))
def test_a_lossy_bus_loses_and_doubles_no_condition(seed: int) -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        for rank in range(30):
            await stage.say(exited(stage, rank), f"d{rank}")
        await stage.clock.sleep(400)
        raised = stage.heard(ConditionRaised)
        assert sorted(each.rank for each in raised) == list(range(30))
        assert await stage.pending() == []

    trouble = Trouble(publish_lost=0.15, dropped=0.1, duplicated=0.2, delay_s_max=0.2)
    story(told, seed=seed, trouble=trouble)


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_writes_whose_acknowledgement_is_lost_double_nothing(lost: int) -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        stage.store.lose_acks_next = lost
        await stage.say(exited(stage, 3), "d")
        await stage.clock.sleep(60)
        assert [each.count for each in stage.heard(ConditionRaised)] == [1]
        assert await stage.pending() == []

    story(told)


def test_a_problem_becomes_a_failure_at_its_time_and_clears_by_good_samples() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        begun = stage.clock.now()
        await stage.say(disk(stage, Health.BAD), "s0")
        await stage.clock.sleep(100)
        raised = stage.heard(ConditionRaised)
        assert [each.tier for each in raised] == ["problem", "failure"]
        assert raised[1].raised_at - begun == timedelta(seconds=60)
        for turn in range(3):
            await stage.say(disk(stage, Health.OK), f"g{turn}")
            await stage.clock.sleep(1)
        (cleared,) = stage.heard(ConditionCleared)
        assert cleared.condition_id == raised[0].condition_id
        assert len({each.envelope.id for each in stage.broker.stored(Stream.HEALTH)}) == 7

    story(told)


def test_an_alarm_outlives_the_process_that_set_it() -> None:
    async def told(stage: Stage) -> None:
        first = await stage.live()
        await stage.say(disk(stage, Health.BAD), "s0")
        await stage.clock.sleep(10)
        await stage.die(first)
        await stage.clock.sleep(120)
        await stage.live("ingest-2")
        await stage.clock.sleep(1)
        assert [each.tier for each in stage.heard(ConditionRaised)] == ["problem", "failure"]

    story(told)


def test_what_a_killed_process_owed_comes_out_at_the_next_start() -> None:
    async def told(stage: Stage) -> None:
        first = await stage.live()
        await stage.say(exited(stage, 3), "d")
        await stage.clock.sleep(1)
        (key,) = await stage.store.keys()
        entry = await stage.store.get(key)
        assert entry is not None
        settled = decode_record(entry.value, entry.revision)
        owed = stage.broker.stored(Stream.HEALTH)[0].envelope
        again = owed.model_copy(update={"id": "never-out"})
        await stage.die(first)
        # The record as it would stand after persist and before publish.
        record = Record(condition=settled.condition, pending=(again,), revision=settled.revision)
        await stage.store.update(key, encode_record(record), entry.revision)
        await stage.live("ingest-2")
        await stage.clock.sleep(1)
        assert [each.envelope.id for each in stage.broker.stored(Stream.HEALTH)] == [owed.id, "never-out"]
        assert await stage.pending() == []

    story(told)


def test_an_unreadable_record_does_not_stop_the_others() -> None:
    async def told(stage: Stage) -> None:
        await stage.store.create("foreign", b'{"v": 99}')
        await stage.store.create("broken", b"\xff")
        first = await stage.live()
        await stage.say(disk(stage, Health.BAD), "s0")
        await stage.clock.sleep(1)
        await stage.die(first)
        await stage.live("ingest-2")
        await stage.clock.sleep(100)
        assert [each.tier for each in stage.heard(ConditionRaised)] == ["problem", "failure"]
        assert all(not task.done() for task in stage.tasks)

    story(told)


def test_records_of_dead_processes_do_not_stay_for_ever() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        for rank in range(4):
            await stage.say(exited(stage, rank), f"d{rank}")
        await stage.clock.sleep(4_000)
        assert await stage.store.keys() == []
        assert len(stage.heard(ConditionCleared)) == 4

    story(told)


def test_a_store_that_is_away_for_a_while_costs_nothing() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        stage.store.fail_next = 3
        await stage.say(exited(stage, 3), "d")
        await stage.clock.sleep(60)
        assert len(stage.heard(ConditionRaised)) == 1

    story(told)


@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b'{"v": 2}', b'{"v": 1}', b'{"v":1,"condition":{},"pending":[]}'])
def test_records_that_are_none_are_refused(raw: bytes) -> None:
    with pytest.raises(PermanentError):
        decode_record(raw, 1)


GPU = "GPU-5d1f2a3b-0c4d-4e5f-8a9b-1c2d3e4f5a6b"


def seen(stage: Stage, check: str, *, boot_id: str = "b1", old: bool = False, **more: object) -> SignalObserved:
    return SignalObserved(
        node_id="node-0",
        component=Component.GPU,
        component_id=GPU,
        check=check,
        health=Health.BAD,
        detail="the line",
        boot_id=boot_id,
        old=old,
        source="kmsg",
        observed_at=stage.clock.now(),
        **more,
    )


def swept(stage: Stage, *samples: tuple[str, Health], boot_id: str = "b1", sweep: int = 0) -> SignalsObserved:
    now = stage.clock.now()
    return SignalsObserved(
        node_id="node-0",
        instance_id="life",
        sweep=sweep,
        whole=True,
        boot_id=boot_id,
        samples=tuple(
            Sample(component=Component.GPU, component_id=GPU, check=check, health=health, observed_at=now)
            for check, health in samples
        ),
        source="nvml",
        observed_at=now,
    )


async def conditions(stage: Stage) -> dict:
    entries = [await stage.store.get(key) for key in await stage.store.keys()]
    found = [decode_record(entry.value, entry.revision).condition for entry in entries if entry]
    return {each.entity.check: each for each in found}


def test_a_sweep_becomes_one_condition_for_each_bad_sample_and_none_for_the_good_ones() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.clock.sleep(1)
        await stage.say(swept(stage, ("a", Health.BAD), ("b", Health.OK), ("c", Health.UNKNOWN)), "s")
        await stage.clock.sleep(1)
        assert [each.check for each in stage.heard(ConditionRaised)] == ["a"]
        assert list(await conditions(stage)) == ["a"]

    story(told)


def test_what_the_policy_says_of_the_device_is_told_with_the_condition() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(seen(stage, "xid_like", attributes={"pci_bus_id": "0000:3b:00", "pid": "77"}), "s")
        await stage.clock.sleep(1)
        (raised,) = stage.heard(ConditionRaised)
        assert raised.tier == "failure"
        device = raised.device
        assert device is not None
        assert (device.gpu_uuid, device.pci_bus_id, device.pid) == (GPU, "0000:3b:00", 77)
        assert (device.origin, device.action, device.rule_id) == ("hardware", "reset_gpu", "check.xid_like")

    story(told)


def test_what_is_only_recorded_is_counted_and_raises_nothing() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        for number in range(5):
            await stage.say(seen(stage, "noise", count=10), f"s{number}")
        await stage.clock.sleep(200)
        assert stage.heard(ConditionRaised) == []
        found = (await conditions(stage))["noise"]
        assert (found.total, found.codes) == (50, (("noise", 50),))

    story(told)


def test_a_new_boot_ends_what_waits_for_a_reset_and_nothing_else() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(seen(stage, "xid_like"), "s0")
        await stage.say(seen(stage, "hot"), "s1")
        await stage.clock.sleep(10)
        await stage.say(swept(stage, boot_id="b1"), "same")
        await stage.clock.sleep(10)
        assert stage.heard(ConditionCleared) == []
        await stage.say(swept(stage, boot_id="b2", sweep=1), "boot")
        await stage.clock.sleep(1)
        assert [each.check for each in stage.heard(ConditionCleared)] == ["xid_like"]

    story(told)


@pytest.mark.parametrize(
    ("outcome", "gpu", "cleared"),
    [(ActionOutcome.DONE, GPU, 1), (ActionOutcome.FAILED, GPU, 0), (ActionOutcome.DONE, "GPU-other", 0)],
)
def test_a_gpu_that_was_reset_by_order_is_clear(outcome: ActionOutcome, gpu: str, cleared: int) -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(seen(stage, "xid_like"), "s0")
        await stage.clock.sleep(10)
        report = NodeActionReported(
            node_id="node-0",
            instance_id="life",
            operation_id="op",
            action=NodeAction.RESET_GPU,
            outcome=outcome,
            gpu_uuid=gpu,
            reason=Reason(rule_id="r", sentence="done"),
            finished_at=stage.clock.now(),
        )
        await stage.say(report, "r")
        await stage.clock.sleep(1)
        assert len(stage.heard(ConditionCleared)) == cleared

    story(told)


def test_quiet_ends_an_event_only_while_the_node_is_heard() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(seen(stage, "event"), "s0")
        await stage.clock.sleep(1_000)
        assert stage.heard(ConditionCleared) == [], "nobody knows whether it was quiet, or the agent dead"
        await stage.say(swept(stage), "alive")
        await stage.clock.sleep(120)
        assert [each.check for each in stage.heard(ConditionCleared)] == ["event"]

    story(told)


def test_an_old_signal_raises_only_what_still_holds() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(seen(stage, "event", old=True), "s0")
        await stage.say(seen(stage, "xid_like", old=True), "s1")
        await stage.clock.sleep(1)
        assert [each.check for each in stage.heard(ConditionRaised)] == ["xid_like"]
        assert (await conditions(stage))["event"].total == 1

    story(told)


def test_a_log_that_is_read_again_counts_nothing_twice() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(seen(stage, "noise", attributes={"seq": "7"}), "s0")
        await stage.say(seen(stage, "noise", attributes={"seq": "7"}, old=True), "again")
        await stage.say(seen(stage, "noise", attributes={"seq": "8"}, old=True), "missed")
        await stage.clock.sleep(1)
        assert (await conditions(stage))["noise"].total == 2

    story(told)


@pytest.mark.parametrize("seed", range(6))
def test_a_lossy_bus_counts_every_signal_once(seed: int) -> None:
    async def told(stage: Stage) -> None:
        first = await stage.live()
        for number in range(60):
            await stage.say(seen(stage, f"check_{number % 4}", count=1 + number % 3), f"s{number}")
            if number == 30:
                await stage.die(first)
                await stage.live("ingest-2")
        await stage.clock.sleep(400)
        found = await conditions(stage)
        assert sum(each.total for each in found.values()) == sum(1 + number % 3 for number in range(60))
        raised = [each for each in stage.heard(ConditionRaised) if each.tier == "problem"]
        assert len(raised) == 4

    trouble = Trouble(publish_lost=0.15, dropped=0.1, duplicated=0.2, delay_s_max=0.2)
    story(told, seed=seed, trouble=trouble)
