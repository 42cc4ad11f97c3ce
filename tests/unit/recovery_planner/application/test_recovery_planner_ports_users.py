"""The smaller use cases: effects, checkpoints, admission, settings of time."""

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from planner_rig import JOB, NoFailpoints, Rig

from fault_contracts.agent import CheckpointReported
from fault_contracts.commands import StartWorkers
from fault_contracts.envelope import Envelope
from recovery_planner.adapters.kv_gangs import KvCheckpoints, KvGangs
from recovery_planner.adapters.kv_nodes import KvNodeStandings
from recovery_planner.application.answer_admission import AnswerAdmission
from recovery_planner.application.node_standings import StandingBook
from recovery_planner.application.publish_effects import VALIDITY_MIN_S, EffectPublisher
from recovery_planner.application.record_checkpoint import CheckpointBook
from recovery_planner.domain.gang import Effect
from recovery_planner.domain.policy import Policy
from recovery_planner.settings import PlannerSettings
from service_kit.errors import BusUnavailable, StaleLeader
from service_kit.testing.memory_key_value import MemoryKeyValue
from service_kit.testing.virtual_clock import EPOCH, LoopClock, VirtualClock, run_virtual


def confirmation(rank: int, step: int = 10) -> CheckpointReported:
    return CheckpointReported(
        node_id="n", job_id=JOB, topology_version=1, rank=rank, step=step, path=f"/c/{step}", saved_at=EPOCH
    )


class SlowBucket(MemoryKeyValue):
    """Others get to run while a write is under way."""

    async def create(self, key: str, value: bytes) -> int:
        await asyncio.sleep(0)
        return await super().create(key, value)

    async def update(self, key: str, value: bytes, revision: int) -> int:
        await asyncio.sleep(0)
        return await super().update(key, value, revision)


# ------------------------------------------------------------------------------------------------- checkpoints


@pytest.mark.asyncio
async def test_confirmations_that_come_together_share_writes_and_all_are_kept() -> None:
    bucket = SlowBucket()
    book = CheckpointBook(KvCheckpoints(bucket))
    await asyncio.gather(*(book.record(confirmation(rank)) for rank in range(64)))
    stored = await KvCheckpoints(bucket).load(JOB)
    assert stored is not None
    assert stored.history.kinds["model"].ranks_ever == ((0, 63),)
    assert stored.history == book.history_of(JOB)
    assert bucket._revision < 10, "64 reports took 64 writes"


@pytest.mark.asyncio
async def test_two_books_on_one_bucket_lose_nothing() -> None:
    bucket = MemoryKeyValue()
    one, two = CheckpointBook(KvCheckpoints(bucket)), CheckpointBook(KvCheckpoints(bucket))
    for rank in range(0, 20, 2):
        await one.record(confirmation(rank))
        await two.record(confirmation(rank + 1))
    stored = await KvCheckpoints(bucket).load(JOB)
    assert stored is not None
    assert stored.history.kinds["model"].ranks_ever == ((0, 19),)


@pytest.mark.asyncio
async def test_confirmation_that_could_not_be_written_is_not_believed_and_may_be_repeated() -> None:
    bucket = MemoryKeyValue()
    book = CheckpointBook(KvCheckpoints(bucket))
    await book.record(confirmation(0))
    bucket.fail_next = 1
    with pytest.raises(BusUnavailable):
        await book.record(confirmation(1))
    assert book.history_of(JOB).kinds["model"].ranks_ever == ((0, 0),)
    await book.record(confirmation(1))
    assert book.history_of(JOB).kinds["model"].ranks_ever == ((0, 1),)


@pytest.mark.asyncio
async def test_a_write_that_took_effect_unseen_is_found() -> None:
    bucket = MemoryKeyValue()
    book = CheckpointBook(KvCheckpoints(bucket))
    bucket.lose_acks_next = 1
    with pytest.raises(BusUnavailable):
        await book.record(confirmation(0))
    await book.record(confirmation(0))
    assert book.history_of(JOB).kinds["model"].ranks_ever == ((0, 0),)


# ----------------------------------------------------------------------------------------------------- effects


class Recorder:
    """A bus that takes everything, or refuses the epoch."""

    def __init__(self, *, stale: bool = False) -> None:
        self.sent: list[tuple[Envelope, int | None]] = []
        self.stale = stale

    async def publish(self, envelope: Envelope, *, epoch: int | None = None) -> int:
        if self.stale and epoch is not None:
            raise StaleLeader("newer")
        self.sent.append((envelope, epoch))
        return 1


class LeaderStub:
    epoch = 7

    def __init__(self) -> None:
        self.lost = False

    def lose(self) -> None:
        self.lost = True


def publisher(bus: Recorder, leader: LeaderStub, clock: VirtualClock) -> EffectPublisher:
    return EffectPublisher(
        bus=bus,  # type: ignore[arg-type]
        clock=clock,
        leader=leader,
        policy=Policy(),
        source="/test",
        failpoints=NoFailpoints(),
    )


async def _owing(rig: Rig) -> Effect:
    """The start command of a gang, as an effect that was not published."""
    start = rig.stored(StartWorkers)[0]
    return Effect(seq=1, payload=start, cause_id="cause")


def test_commands_carry_the_epoch_and_the_same_id_every_time() -> None:
    async def story() -> None:
        rig = Rig()
        await rig.begin("a", "b")
        gang = await rig.until_running(1)
        gang = replace(gang, pending=(await _owing(rig),))
        clock, bus = VirtualClock(), Recorder()
        out = publisher(bus, LeaderStub(), clock)
        await out.publish(gang)
        await clock.advance(10_000)
        await out.publish(gang)
        (first, epoch), (second, _) = bus.sent
        assert epoch == first.data.fence.epoch == 7
        assert first.id == second.id, "the server keeps one of them"
        assert first.causationid == "cause"
        assert second.data.expires_at > clock.now() + timedelta(seconds=VALIDITY_MIN_S), "valid when it arrives"
        await rig.end()

    run_virtual(story())


def test_refused_epoch_ends_the_lead() -> None:
    async def story() -> None:
        rig = Rig()
        await rig.begin("a", "b")
        gang = await rig.until_running(1)
        gang = replace(gang, pending=(await _owing(rig),))
        leader = LeaderStub()
        with pytest.raises(StaleLeader):
            await publisher(Recorder(stale=True), leader, VirtualClock()).publish(gang)
        assert leader.lost
        await rig.end()

    run_virtual(story())


# --------------------------------------------------------------------------------------------------- admission


def test_admission_is_answered_over_the_bus() -> None:
    async def story() -> None:
        rig = Rig()
        await rig.begin("a", "b")
        await rig.until_running(1)

        async def ask(question: object) -> dict[str, object]:
            answer = await rig.nodes["a"].bus.ask(
                what="admission", key=JOB, body=json.dumps(question).encode(), timeout_s=1
            )
            assert answer is not None
            return dict(json.loads(answer))

        good = {"node_id": "c", "spec": rig.spec.model_dump()}
        answer = await ask(good)
        assert answer["admitted"] is True
        assert "spare" in str(answer["reason"]), "the gang runs already, and the person is told what this node is for"
        odd = {"node_id": "c", "spec": rig.spec.model_copy(update={"nproc_per_node": 8}).model_dump()}
        assert "nproc_per_node is 8, the job has 1" in str((await ask(odd))["reason"])
        assert (await ask({"node_id": "c", "spec": {"nnodes": -1}}))["admitted"] is False
        assert (await ask(["not", "a", "question"]))["admitted"] is False
        for node in rig.nodes.values():
            node.leave()
        await rig.clock.sleep(5)
        assert await rig.nodes["a"].bus.ask(what="admission", key=JOB, timeout_s=1) is None, "the job is over"
        await rig.end()

    run_virtual(story())


def test_unknown_job_admits_for_now() -> None:
    async def story() -> None:
        rig = Rig()
        admission = AnswerAdmission(
            bus=rig.planner().bus, standings=StandingBook(KvNodeStandings(rig.standings), ok_demanded=False)
        )
        assert json.loads(admission.answer("unknown", b""))["admitted"] is True
        await rig.end()

    run_virtual(story())


# ----------------------------------------------------------------------------------------------------- settings


def test_settings_become_policy_and_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PHALANX_VERDICT_DEADLINE_S", "0.5")
    monkeypatch.setenv("PHALANX_AGENT_ABSENT_GRACE_S", "3")
    settings = PlannerSettings()
    assert settings.policy().verdict_deadline_s == 0.5
    assert settings.patience().agent_absent_grace_s == 3
    assert settings.policy() == Policy(verdict_deadline_s=0.5), "the defaults of both are the same"


@pytest.mark.parametrize("name", ["PHALANX_STOP_MARGIN_S", "PHALANX_CAPACITY_WAIT_S", "PHALANX_ENDED_KEPT_S"])
def test_a_limit_of_zero_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "0")
    with pytest.raises(ValueError, match="greater than 0"):
        PlannerSettings()


def test_old_ended_jobs_are_removed_when_a_lead_begins() -> None:
    async def story() -> None:
        rig = Rig()
        first = await rig.begin("a", "b")
        await rig.until_running(1)
        for node in rig.nodes.values():
            node.leave()
        await rig.clock.sleep(5)
        for node in rig.nodes.values():
            node.kill()
        assert await KvGangs(rig.gangs).load(JOB) is not None
        first.kill()
        await rig.clock.sleep(3_700)
        assert isinstance(rig.clock, LoopClock)
        await rig.planner().known.wait()
        assert await KvGangs(rig.gangs).load(JOB) is None
        await rig.end()

    run_virtual(story())
