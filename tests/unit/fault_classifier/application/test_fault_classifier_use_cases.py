"""Evidence to verdicts on a bus and a store that fail: one verdict each, deadlines kept, replicas at peace."""

from __future__ import annotations

import asyncio

import pytest
from judge_stage import HISTORY_S, Stage, death, opened, story, victim

from fault_classifier.adapters.kv_evidence import decode_record, encode_record
from fault_classifier.application.ports import Record
from fault_contracts.health import Tier
from fault_contracts.payload import Reason
from fault_contracts.recovery import GangFormed, JobEnded, JobOutcome, NodeLost
from fault_contracts.registry import Stream
from service_kit.errors import PermanentError
from service_kit.testing.memory_broker import Trouble


def test_evidence_on_three_subjects_gives_one_verdict_in_the_incident() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(opened(stage), "i")
        await stage.say(victim(stage, 0), "v")
        await stage.say(death(stage, 2), "d")
        await stage.clock.sleep(60)
        verdict = stage.verdicts()[-1]
        assert (verdict.cause, verdict.culprit.rank) == ("process_killed", 2)
        assert {each.envelope.correlationid for each in stage.broker.stored(Stream.FAULTS)} == {"incident-job"}
        assert await stage.pending() == []

    story(told)


def test_only_victims_are_judged_at_the_deadline_to_the_millisecond() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        begun = stage.clock.now()
        await stage.say(victim(stage, 0), "v")
        await stage.clock.sleep(10)
        (verdict,) = stage.verdicts()
        assert verdict.cause == "communication_error"
        assert 1.8 <= (verdict.classified_at - begun).total_seconds() < 1.81
        provisional = stage.words()[0]
        assert provisional.provisional
        assert verdict.supersedes == provisional.fault_id
        assert (provisional.classified_at - begun).total_seconds() < 0.1

    story(told)


def test_an_incident_without_evidence_gets_its_verdict_too() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(opened(stage), "i")
        await stage.clock.sleep(10)
        assert [each.cause for each in stage.verdicts()] == ["no_evidence"]

    story(told)


def test_a_deadline_outlives_the_process_that_set_it() -> None:
    async def told(stage: Stage) -> None:
        first = await stage.live()
        await stage.say(victim(stage, 0), "v")
        await stage.clock.sleep(1)
        await stage.die(first)
        await stage.live("judge-2")
        await stage.clock.sleep(2)
        assert [each.cause for each in stage.verdicts()] == ["communication_error"]

    story(told)


def test_a_verdict_that_is_due_while_the_store_is_away_comes_when_it_is_back() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(victim(stage, 0), "v")
        await stage.clock.sleep(1)
        stage.store.fail_next = 4
        await stage.clock.sleep(5)
        assert [each.cause for each in stage.verdicts()] == ["communication_error"]

    story(told)


@pytest.mark.parametrize("seed", range(6))
def test_a_lossy_bus_loses_and_doubles_no_verdict(seed: int) -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        for place in range(20):
            await stage.say(victim(stage, 0, job=f"job-{place}"), f"v{place}")
            await stage.say(death(stage, 2, job=f"job-{place}"), f"d{place}")
            await stage.say(opened(stage, f"job-{place}"), f"i{place}")
        await stage.clock.sleep(400)
        for place in range(20):
            # A delivery that came after the deadline may have revised a verdict; the last word is what counts.
            verdicts = stage.words(f"job-{place}")
            assert verdicts[-1].cause == "process_killed"
            assert not verdicts[-1].provisional
            assert [each.supersedes for each in verdicts] == [None, *(each.fault_id for each in verdicts[:-1])]
        assert await stage.pending() == []

    story(told, seed=seed, trouble=Trouble(publish_lost=0.15, dropped=0.05, duplicated=0.2, delay_s_max=0.2))


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_writes_whose_acknowledgement_is_lost_double_nothing(lost: int) -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        stage.store.lose_acks_next = lost
        await stage.say(death(stage, 2), "d")
        await stage.clock.sleep(60)
        assert [each.cause for each in stage.verdicts()] == ["process_killed"]
        assert await stage.pending() == []

    story(told)


@pytest.mark.parametrize("seed", range(4))
def test_two_replicas_in_each_others_way_agree(seed: int) -> None:
    async def told(stage: Stage) -> None:
        await stage.live("judge-1")
        await stage.live("judge-2")
        ranks = range(0, 40, 2)
        await asyncio.gather(*(stage.say(victim(stage, rank), f"v{rank}") for rank in ranks if rank != 20))
        await stage.say(death(stage, 20), "d")
        await stage.clock.sleep(300)
        assert stage.verdicts()[-1].cause == "process_killed"
        entry = await stage.store.get("job")
        assert entry is not None
        generation = decode_record(entry.value, entry.revision).job.generation(1)
        assert len(generation.exits) + generation.exits_dropped == 20
        assert {each.envelope.data.fault_id for each in stage.broker.stored(Stream.FAULTS)} == {
            each.fault_id for each in stage.words()
        }

    story(told, seed=seed, trouble=Trouble(delay_s_max=0.05))


def test_what_a_killed_process_owed_comes_out_at_the_next_start() -> None:
    async def told(stage: Stage) -> None:
        first = await stage.live()
        await stage.say(death(stage, 2), "d")
        await stage.clock.sleep(1)
        await stage.die(first)
        entry = await stage.store.get("job")
        assert entry is not None
        settled = decode_record(entry.value, entry.revision)
        owed = stage.broker.stored(Stream.FAULTS)[0].envelope.model_copy(update={"id": "never-out"})
        record = Record(job=settled.job, pending=(owed,), revision=settled.revision)
        await stage.store.update("job", encode_record(record), entry.revision)
        await stage.live("judge-2")
        await stage.clock.sleep(1)
        assert [each.envelope.id for each in stage.broker.stored(Stream.FAULTS)][1:] == ["never-out"]
        assert await stage.pending() == []

    story(told)


def test_problems_and_conditions_of_no_job_are_not_judged() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(death(stage, 0).model_copy(update={"tier": Tier.PROBLEM}), "p")
        await stage.say(death(stage, 2).model_copy(update={"job_id": ""}), "n")
        await stage.clock.sleep(10)
        assert stage.broker.stored(Stream.FAULTS) == []
        assert stage.broker.stored(Stream.DLQ) == []

    story(told)


def test_old_jobs_are_forgotten_and_young_ones_are_not() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(death(stage, 2, job="old"), "d")
        await stage.clock.sleep(HISTORY_S - 3_600)
        await stage.say(death(stage, 2, job="young"), "e")
        await stage.clock.sleep(7_200)
        assert await stage.store.keys() == ["young"]

    story(told)


def test_a_job_that_ended_is_not_waited_for() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(victim(stage, 0), "v")
        ended = JobEnded(
            job_id="job",
            outcome=JobOutcome.CANCELLED,
            topology_version=1,
            restarts=0,
            reason=Reason(rule_id="r", sentence="s"),
            ended_at=stage.clock.now(),
        )
        await stage.say(ended, "e")
        await stage.clock.sleep(10)
        assert stage.verdicts() == []

    story(told)


def test_a_lost_node_is_judged_at_once() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        lost = NodeLost(
            job_id="job",
            node_id="node-1",
            topology_version=1,
            reason=Reason(rule_id="r", sentence="no answer"),
            lost_at=stage.clock.now(),
        )
        await stage.say(victim(stage, 0), "v")
        await stage.say(lost, "l")
        await stage.clock.sleep(0.1)
        assert [each.cause for each in stage.verdicts()] == ["agent_lost"]

    story(told)


@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b'{"v": 2}', b'{"v": 1}', b'{"v":1,"job":{},"pending":[]}'])
def test_records_that_are_none_are_refused(raw: bytes) -> None:
    with pytest.raises(PermanentError):
        decode_record(raw, 1)


def test_a_record_that_somebody_else_made_in_the_meantime_is_read() -> None:
    """A process that remembers that there was none must not judge without the past that another one wrote."""

    async def told(stage: Stage) -> None:
        def formed(version: int) -> GangFormed:
            return GangFormed(
                job_id="job", topology_version=version, nodes=("n",), world_size=1, formed_at=stage.clock.now()
            )

        first = await stage.live("judge-1")
        await stage.say(formed(1), "f1")
        await stage.clock.sleep(1)
        stage.broker.partitioned.add("judge-1")
        second = await stage.live("judge-2")
        await stage.say(victim(stage, 0), "v")
        await stage.clock.sleep(5)
        second.kill()
        stage.broker.partitioned.discard("judge-1")
        await stage.say(death(stage, 2), "d")
        await stage.clock.sleep(100)
        first.kill()
        assert [each.cause for each in stage.verdicts()] == ["communication_error", "process_killed"]
        words = stage.words()
        assert [each.supersedes for each in words] == [None, *(each.fault_id for each in words[:-1])]

    story(told)


@pytest.mark.parametrize(("planned", "causes"), [(False, ["no_evidence"]), (True, [])])
def test_a_planned_stop_is_not_judged(planned: bool, causes: list[str]) -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        told_of = opened(stage).model_copy(update={"planned": planned})
        await stage.say(told_of, "i")
        await stage.clock.sleep(10)
        assert [each.cause for each in stage.verdicts()] == causes

    story(told)


def test_what_breaks_while_a_planned_stop_is_under_way_is_judged() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.say(opened(stage).model_copy(update={"planned": True}), "i")
        await stage.say(death(stage, 2), "d")
        await stage.clock.sleep(10)
        assert [each.cause for each in stage.verdicts()] == ["process_killed"]

    story(told)
