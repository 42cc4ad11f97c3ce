"""Signals to conditions on a bus and a store that fail: nothing lost, nothing doubled, alarms kept over a restart."""

from __future__ import annotations

from datetime import timedelta

import pytest
from ingest_stage import Stage, story

from fault_contracts.agent import ExitStatus, WorkerExited
from fault_contracts.health import Component, ConditionCleared, ConditionRaised, SignalObserved
from fault_contracts.payload import Health
from fault_contracts.registry import Stream
from health_ingest.adapters.kv_conditions import decode_record, encode_record
from health_ingest.application.ports import Record
from service_kit.errors import PermanentError
from service_kit.testing.memory_broker import Trouble


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
