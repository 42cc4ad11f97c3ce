"""Persist, publish, clear, acknowledge: what happens when one of them fails."""

import asyncio
from dataclasses import replace

import pytest
from planner_rig import JOB, NoFailpoints, Rig

from fault_contracts.agent import WorkerExited
from fault_contracts.commands import StartWorkers, StopWorkers
from fault_contracts.envelope import Envelope
from fault_contracts.recovery import IncidentOpened
from fault_contracts.registry import Stream
from recovery_planner.adapters.kv_gangs import KvGangs
from recovery_planner.application import advance_gang
from recovery_planner.domain.gang import Gang
from recovery_planner.domain.gang_machine import IllegalMove
from recovery_planner.domain.step import DeadlineExpired
from service_kit.errors import BusUnavailable, IllegalTransition, PermanentError, TransientError
from service_kit.testing.virtual_clock import run_virtual


class Trace(NoFailpoints):
    """The order in which the boundaries were passed."""

    def __init__(self) -> None:
        self.places: list[str] = []

    def reach(self, name: str) -> None:
        self.places.append(name)


async def running(failpoints: NoFailpoints | None = None, *, judge: bool = True) -> Rig:
    rig = Rig(judge=judge)
    await rig.begin("a", "b", failpoints=failpoints)
    await rig.until_running(1)
    await rig.clock.sleep(1)
    return rig


def test_order_of_the_boundaries() -> None:
    async def story() -> None:
        trace = Trace()
        rig = await running(trace, judge=False)
        trace.places.clear()
        rig.nodes["a"].rank_dies()
        await rig.clock.sleep(0.01)
        assert trace.places[:6] == [
            "after_decide",
            "after_persist",
            "after_publish_each",
            "after_publish_each",
            "after_clear",
            "before_ack",
        ]
        await rig.end()

    run_virtual(story())


def test_write_that_took_effect_without_an_answer_is_found_by_reloading() -> None:
    async def story() -> None:
        rig = await running()
        rig.gangs.lose_acks_next = 1
        rig.nodes["a"].rank_dies()
        await rig.until_running(2)
        assert rig.versions() == [1, 2]
        assert len(rig.stored(IncidentOpened, Stream.JOURNAL)) == 1
        await rig.end()

    run_virtual(story())


def test_store_that_is_away_for_a_while_loses_nothing() -> None:
    async def story() -> None:
        rig = await running()
        rig.gangs.fail_next = 3
        rig.nodes["a"].rank_dies()
        await rig.clock.sleep(5)
        assert rig.gangs.fail_next == 0
        await rig.until_running(2)
        assert rig.versions() == [1, 2]
        await rig.end()

    run_virtual(story())


def test_events_that_queue_up_are_written_together() -> None:
    async def story() -> None:
        rig = await running()
        advance = rig.lives[0].planner.advance
        before = rig.gangs._revision
        await asyncio.gather(*(advance.handle(JOB, DeadlineExpired()) for _ in range(50)))
        assert rig.gangs._revision == before, "time alone is not worth a write"
        rig.nodes["a"].rank_dies()
        rig.nodes["b"].rank_dies()
        await rig.until_running(2)
        assert rig.gangs._revision - before < 12
        await rig.end()

    run_virtual(story())


def test_refused_journal_entry_does_not_hold_up_the_recovery() -> None:
    async def story() -> None:
        rig = await running()
        bus = rig.lives[0].bus
        publish = bus.publish

        async def refusing(envelope: Envelope, *, epoch: int | None = None) -> int:
            if isinstance(envelope.data, IncidentOpened):
                raise PermanentError("no permission")
            return await publish(envelope, epoch=epoch)

        bus.publish = refusing
        rig.nodes["a"].rank_dies()
        gang = await rig.until_running(2)
        assert gang.pending == ()
        await rig.end()

    run_virtual(story())


def test_command_that_could_not_be_published_is_published_when_the_bus_is_back() -> None:
    async def story() -> None:
        rig = await running()
        bus = rig.lives[0].bus
        publish, failures = bus.publish, 0

        async def failing(envelope: Envelope, *, epoch: int | None = None) -> int:
            nonlocal failures
            if isinstance(envelope.data, StopWorkers) and failures < 4:
                failures += 1
                raise BusUnavailable("away")
            return await publish(envelope, epoch=epoch)

        bus.publish = failing
        rig.nodes["a"].rank_dies()
        await rig.clock.sleep(0.01)
        gang = await rig.gang()
        assert gang is not None
        assert [type(e.payload) for e in gang.pending if isinstance(e.payload, StopWorkers)], "it stays in the record"
        await rig.until_running(2)
        assert failures == 4
        assert rig.versions(StopWorkers) == [1]
        await rig.end()

    run_virtual(story())


@pytest.mark.parametrize("raises", [True, False], ids=["raises", "breaks the record"])
def test_a_defect_fails_its_event_alone_and_changes_nothing(monkeypatch: pytest.MonkeyPatch, raises: bool) -> None:
    async def story() -> None:
        rig = await running()
        real = advance_gang.step

        def broken(gang: Gang, event: object, **kw: object) -> object:
            if not isinstance(event, WorkerExited):
                return real(gang, event, **kw)  # type: ignore[arg-type]
            if raises:
                raise IllegalMove("a defect")
            result = real(gang, event, **kw)  # type: ignore[arg-type]
            return replace(result, gang=replace(gang, deadline_at=gang.born_at))

        monkeypatch.setattr(advance_gang, "step", broken)
        before = await rig.gang()
        death = WorkerExited.model_validate_json(
            '{"node_id":"a","instance_id":"a/1","job_id":"job-1","topology_version":1,"ordinal":0,'
            '"exit":{"rank":0,"local_rank":0,"pid":1},"ran_s":1,"observed_at":"2030-01-01T00:00:00Z"}'
        )
        advance = rig.lives[0].planner.advance
        results = await asyncio.gather(
            advance.handle(JOB, death), advance.handle(JOB, DeadlineExpired()), return_exceptions=True
        )
        assert isinstance(results[0], IllegalTransition)
        assert results[1] is None
        assert await rig.gang() == before
        await rig.end()

    run_virtual(story())


def test_writes_that_are_always_overtaken_give_up_after_a_limit() -> None:
    async def story() -> None:
        rig = await running()
        planner = rig.lives[0].planner
        store = KvGangs(rig.gangs)
        save = planner.advance._store.save
        overtaken = 0

        async def late(gang: Gang, revision: int | None) -> int:
            nonlocal overtaken
            stored = await store.load(JOB)
            assert stored is not None
            await store.save(replace(stored.gang, step_max=overtaken), stored.revision)
            overtaken += 1
            return await save(gang, revision)

        planner.advance._store.save = late
        event = rig.nodes["a"]
        with pytest.raises(TransientError, match="16 writes in a row"):
            await planner.advance.handle(JOB, _death(event.instance_id))
        assert overtaken == advance_gang.LOSSES_MAX
        await rig.end()

    run_virtual(story())


def _death(instance_id: str) -> WorkerExited:
    return WorkerExited.model_validate(
        {
            "node_id": "a",
            "instance_id": instance_id,
            "job_id": JOB,
            "topology_version": 1,
            "ordinal": 0,
            "exit": {"rank": 0, "local_rank": 0, "pid": 1},
            "ran_s": 1,
            "observed_at": "2030-01-01T00:00:00Z",
        }
    )


def test_event_of_an_unknown_job_is_nobodys() -> None:
    async def story() -> None:
        rig = await running()
        advance = rig.lives[0].planner.advance
        await advance.handle("never-heard-of", _death("a/1"))
        assert advance.gang_of("never-heard-of") is None
        assert await rig.gangs.get("never-heard-of") is None
        assert rig.versions(StartWorkers) == [1]
        await rig.end()

    run_virtual(story())


def test_copy_that_is_out_of_date_forgets_no_event() -> None:
    """Two planners for a moment: the older one's copy does not know the generation that the news is about."""

    async def story() -> None:
        rig = await running()
        await rig.lives[0].known.wait()
        other = rig.planner()
        await other.known.wait()
        await other.planner.advance.handle(JOB, DeadlineExpired())
        rig.nodes["a"].rank_dies()
        await rig.until_running(2)
        copy = other.planner.advance.gang_of(JOB)
        assert copy is not None
        assert copy.table.topology_version == 1
        death = _death("a/1").model_copy(update={"topology_version": 2})
        with pytest.raises(TransientError, match="another planner leads"):
            await other.planner.advance.handle(JOB, death)
        gang = await rig.gang()
        assert gang is not None
        assert gang.phase == "stopping", "it is written down, and the message comes again to the one who leads"
        await rig.lives[0].planner.advance.handle(JOB, death)
        await rig.until_running(3)
        assert rig.versions() == [1, 2, 3]
        await rig.end()

    run_virtual(story())


def test_reports_that_cannot_be_decided_together_are_decided_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def no(_gang: Gang, reports: list[object], **_known: object) -> None:
        asked.append(len(reports))
        raise IllegalMove("not together")

    async def story() -> None:
        monkeypatch.setattr(advance_gang, "step_together", no)
        rig = await running()
        rig.nodes["a"].rank_dies()
        await rig.until_running(2)
        assert rig.versions() == [1, 2]
        await rig.end()

    run_virtual(story())
    assert asked
    assert all(number > 1 for number in asked)
