"""What every Bus promises, checked against the fake and against a real nats-server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

import pytest
import pytest_asyncio

from fault_contracts.agent import AgentHeartbeat, StepReported, WorkersStopped
from fault_contracts.commands import EndJob, StopWorkers
from fault_contracts.dead_letter import DeadLettered
from fault_contracts.registry import Stream, spec_of
from phalanx_cli.stack.nats_server import NatsServer
from service_kit.clock import SystemClock
from service_kit.errors import BusUnavailable, PermanentError, StaleLeader, TransientError
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.streams import ensure_streams
from service_kit.ports import Bus, Delivery
from service_kit.settings import BusSettings
from service_kit.testing.memory_broker import MemoryBroker
from service_kit.testing.memory_bus import MemoryBus
from service_kit.testing.messages import a_heartbeat, a_step, a_stop, an_end, an_epoch

pytestmark = pytest.mark.asyncio


class World(Protocol):
    """A bus under test, and a way to put broken bytes on a subject."""

    cluster: str
    bus: Bus

    async def another(self) -> Bus: ...

    async def inject(self, subject: str, body: bytes) -> None: ...


class FakeWorld:
    def __init__(self, cluster: str) -> None:
        self.cluster = cluster
        self.broker = MemoryBroker(SystemClock())
        self.bus: Bus = MemoryBus(self.broker, cluster=cluster, name="one")

    async def another(self) -> Bus:
        return MemoryBus(self.broker, cluster=self.cluster, name="two")

    async def inject(self, subject: str, body: bytes) -> None:
        self.broker.inject(subject, body, Stream.CONTROL if subject.startswith("phx.cmd.") else Stream.AGENTS)

    async def close(self) -> None:
        await self.broker.close()


class RealWorld:
    def __init__(self, url: str, cluster: str) -> None:
        self.settings = BusSettings(nats_url=url, cluster=cluster, stream_bytes_max=64 << 20)
        self.cluster = cluster
        self.connections: list[Connection] = []

    async def start(self) -> None:
        self.bus = await self.another()
        await ensure_streams(self.connections[0], self.settings)

    async def another(self) -> Bus:
        connection = await connect(self.settings, name=f"suite-{len(self.connections)}")
        self.connections.append(connection)
        return JetStreamBus(connection, cluster=self.cluster)

    async def inject(self, subject: str, body: bytes) -> None:
        await self.connections[0].client.publish(subject, body)

    async def close(self) -> None:
        for connection in self.connections:
            await connection.close()


@pytest_asyncio.fixture(params=["fake", "real"])
async def world(request: pytest.FixtureRequest, unique_name: str) -> AsyncIterator[World]:
    if request.param == "fake":
        fake = FakeWorld(unique_name)
        yield fake
        await fake.close()
        return
    server: NatsServer = request.getfixturevalue("nats_server")
    real = RealWorld(server.url, unique_name)
    await real.start()
    yield real
    await real.close()


async def until(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - what is waited for lies behind a port
            await asyncio.sleep(0.005)


class Seen:
    """Collects deliveries; fails on demand."""

    def __init__(self, failing: Callable[[Delivery], Awaitable[None]] | None = None) -> None:
        self.deliveries: list[Delivery] = []
        self.failing = failing

    async def __call__(self, delivery: Delivery) -> None:
        self.deliveries.append(delivery)
        if self.failing is not None:
            await self.failing(delivery)

    @property
    def steps(self) -> list[int]:
        return [delivery.envelope.data.step for delivery in self.deliveries]


async def test_a_stored_message_reaches_its_consumer_with_its_place_in_the_stream(world: World) -> None:
    seen = Seen()
    await world.bus.consume(durable="reader", messages=[StepReported], handler=seen)
    sequence = await world.bus.publish(a_step(7, node_id="gpu-7.Rack=1"))
    await until(lambda: len(seen.deliveries) == 1)
    delivery = seen.deliveries[0]
    assert delivery.envelope == a_step(7, node_id="gpu-7.Rack=1")
    assert (delivery.stream_sequence, delivery.deliveries) == (sequence, 1)
    assert "Rack" not in delivery.subject


async def test_a_message_published_twice_is_stored_once(world: World) -> None:
    first = await world.bus.publish(a_step(1))
    again = await world.bus.publish(a_step(1))
    seen = Seen()
    await world.bus.consume(durable="reader", messages=[StepReported], handler=seen)
    await world.bus.publish(a_step(2))
    await until(lambda: 2 in seen.steps)
    assert first == again
    assert seen.steps == [1, 2]


async def test_a_new_durable_reads_from_the_beginning_or_from_now(world: World) -> None:
    await world.bus.publish(a_step(1))
    old, new = Seen(), Seen()
    await world.bus.consume(durable="old", messages=[StepReported], handler=old)
    await world.bus.consume(durable="new", messages=[StepReported], handler=new, from_now=True)
    await world.bus.publish(a_step(2))
    await until(lambda: len(old.steps) == 2 and len(new.steps) == 1)
    assert (old.steps, new.steps) == ([1, 2], [2])


async def test_a_durable_goes_on_where_it_stopped(world: World) -> None:
    first, second = Seen(), Seen()
    running = await world.bus.consume(durable="reader", messages=[StepReported], handler=first)
    await world.bus.publish(a_step(1))
    await until(lambda: first.steps == [1])
    await running.stop()
    await world.bus.publish(a_step(2))
    other = await world.another()
    await other.consume(durable="reader", messages=[StepReported], handler=second)
    await until(lambda: second.steps == [2])
    assert first.steps == [1]


async def test_one_key_keeps_its_order_while_another_goes_on(world: World) -> None:
    release = asyncio.Event()

    async def hold_node_0(delivery: Delivery) -> None:
        if delivery.envelope.data.node_id == "node-0" and delivery.envelope.data.step == 1:
            await release.wait()

    seen = Seen(hold_node_0)
    await world.bus.consume(durable="reader", messages=[StepReported], handler=seen)
    for step in (1, 2, 3):
        await world.bus.publish(a_step(step, node_id="node-0"))
    await world.bus.publish(a_step(9, node_id="node-1"))
    await until(lambda: 9 in seen.steps)
    assert set(seen.steps) == {1, 9}
    release.set()
    await until(lambda: len(seen.steps) == 4)
    assert [step for step in seen.steps if step != 9] == [1, 2, 3]


async def test_a_transient_failure_is_tried_again_before_the_next_of_its_key(world: World) -> None:
    async def fail_twice(delivery: Delivery) -> None:
        if delivery.envelope.data.step == 1 and delivery.deliveries < 3:
            raise TransientError("not yet", retry_after_s=0.01)

    seen = Seen(fail_twice)
    await world.bus.consume(durable="reader", messages=[StepReported], handler=seen)
    await world.bus.publish(a_step(1))
    await world.bus.publish(a_step(2))
    await until(lambda: 2 in seen.steps)
    assert [(d.envelope.data.step, d.deliveries) for d in seen.deliveries] == [(1, 1), (1, 2), (1, 3), (2, 1)]


async def _letters(world: World) -> Seen:
    letters = Seen()
    await world.bus.consume(durable="letters", messages=[DeadLettered], handler=letters)
    return letters


async def test_a_permanent_failure_is_dead_lettered_once_and_the_next_message_goes_on(world: World) -> None:
    async def refuse_1(delivery: Delivery) -> None:
        if delivery.envelope.data.step == 1:
            raise PermanentError("step one is cursed")

    seen, letters = Seen(refuse_1), await _letters(world)
    await world.bus.consume(durable="reader", messages=[StepReported], handler=seen)
    sequence = await world.bus.publish(a_step(1))
    await world.bus.publish(a_step(2))
    await until(lambda: 2 in seen.steps and len(letters.deliveries) == 1)
    letter: DeadLettered = letters.deliveries[0].envelope.data
    assert seen.steps == [1, 2]
    assert (letter.consumer, letter.stream, letter.stream_sequence) == ("reader", "AGENTS", sequence)
    assert (letter.error, letter.message) == ("PermanentError", "step one is cursed")
    assert '"step":1' in letter.body


async def test_a_message_that_keeps_failing_is_dead_lettered_after_five_tries(world: World) -> None:
    async def fail(delivery: Delivery) -> None:
        raise TransientError("never", retry_after_s=0.0)

    seen, letters = Seen(fail), await _letters(world)
    await world.bus.consume(durable="reader", messages=[StepReported], handler=seen)
    await world.bus.publish(a_step(1))
    await until(lambda: len(letters.deliveries) == 1)
    assert [d.deliveries for d in seen.deliveries] == [1, 2, 3, 4, 5]
    assert letters.deliveries[0].envelope.data.deliveries == 5


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"\xff\xfe garbage", "JSON"),
        (b'{"specversion":"1.0","type":"evt.agent.invented.v1"}', "not registered"),
        (a_step(3, node_id="somebody-else").to_bytes(), "came on"),
        (a_heartbeat(3).to_bytes(), "came on"),
    ],
    ids=["not-json", "unknown-type", "foreign-key", "foreign-type"],
)
async def test_a_malformed_message_is_dead_lettered_and_everything_else_goes_on(
    world: World, body: bytes, complaint: str
) -> None:
    seen, letters = Seen(), await _letters(world)
    await world.bus.consume(durable="reader", messages=[StepReported], handler=seen)
    await world.inject(str(a_step(0).channel(world.cluster)), body)
    await world.bus.publish(a_step(5))
    await until(lambda: seen.steps == [5] and len(letters.deliveries) == 1)
    letter: DeadLettered = letters.deliveries[0].envelope.data
    assert letter.error == "ContractViolation"
    assert complaint in letter.message
    assert letter.body_bytes == len(body)


async def test_a_stopped_consumer_finishes_the_message_in_hand_and_gives_back_the_rest(world: World) -> None:
    started, release = asyncio.Event(), asyncio.Event()
    finished: list[int] = []

    async def slow(delivery: Delivery) -> None:
        started.set()
        await release.wait()
        finished.append(delivery.envelope.data.step)

    running = await world.bus.consume(durable="reader", messages=[StepReported], handler=slow)
    for step in (1, 2):
        await world.bus.publish(a_step(step))
    await started.wait()
    stopping = asyncio.create_task(running.stop())
    await asyncio.sleep(0.05)
    assert not stopping.done()
    release.set()
    await stopping
    assert finished == [1]
    rest = Seen()
    await (await world.another()).consume(durable="reader", messages=[StepReported], handler=rest)
    await until(lambda: rest.steps == [2])


async def test_heartbeats_are_heard_but_not_stored(world: World) -> None:
    seen = Seen()
    running = await world.bus.listen(messages=[AgentHeartbeat], handler=seen)
    assert await world.bus.publish(a_heartbeat(1)) == 0
    await until(lambda: seen.steps == [1])
    await running.stop()
    await world.bus.publish(a_heartbeat(2))
    await asyncio.sleep(0.05)
    assert seen.steps == [1]
    with pytest.raises(PermanentError, match="not stored"):
        await world.bus.consume(durable="reader", messages=[AgentHeartbeat], handler=seen)


async def test_stored_events_are_heard_as_they_are_published(world: World) -> None:
    seen, others = Seen(), Seen()
    await world.bus.listen(messages=[StepReported], handler=seen, key="node-0")
    await world.bus.listen(messages=[StepReported], handler=others, key="node-1")
    await world.bus.publish(a_step(1))
    await until(lambda: seen.steps == [1])
    assert others.steps == []


async def test_a_listener_goes_on_after_a_failing_handler(world: World) -> None:
    async def fail_on_1(delivery: Delivery) -> None:
        if delivery.envelope.data.step == 1:
            raise ValueError("a bug")

    seen = Seen(fail_on_1)
    await world.bus.listen(messages=[AgentHeartbeat], handler=seen)
    for number in (1, 2):
        await world.bus.publish(a_heartbeat(number))
    await until(lambda: seen.steps == [1, 2])


async def test_commands_of_the_leader_reach_listeners_of_their_job_only(world: World) -> None:
    mine, others = Seen(), Seen()
    await world.bus.listen(messages=[StopWorkers, EndJob], handler=mine, key="job")
    await world.bus.listen(messages=[StopWorkers], handler=others, key="other")
    epoch = await world.bus.take_epoch(an_epoch())
    sequence = await world.bus.publish(a_stop(epoch, 1), epoch=epoch)
    await world.bus.publish(an_end(epoch), epoch=epoch)
    await until(lambda: len(mine.deliveries) == 2)
    assert [type(d.envelope.data) for d in mine.deliveries] == [StopWorkers, EndJob]
    assert mine.deliveries[0].stream_sequence == sequence
    assert others.deliveries == []


async def test_a_stale_leaders_command_is_refused_and_nobody_hears_it(world: World) -> None:
    seen = Seen()
    await world.bus.listen(messages=[StopWorkers], handler=seen, key="job")
    old = await world.bus.take_epoch(an_epoch("planner-1"))
    new = await (await world.another()).take_epoch(an_epoch("planner-2"))
    assert new > old
    with pytest.raises(StaleLeader):
        await world.bus.publish(a_stop(old, 1), epoch=old)
    await world.bus.publish(a_stop(new, 2), epoch=new)
    await until(lambda: len(seen.deliveries) == 1)
    assert seen.deliveries[0].envelope.data.operation_id == "stop-2"
    found = await world.bus.last_commands(key="job", messages=[StopWorkers])
    assert [d.envelope.data.operation_id for d in found] == ["stop-2"]


async def test_the_same_planner_taking_the_lead_again_gets_a_newer_epoch(world: World) -> None:
    first = await world.bus.take_epoch(an_epoch("planner-1"))
    second = await world.bus.take_epoch(an_epoch("planner-1"))
    assert second > first
    with pytest.raises(StaleLeader):
        await world.bus.publish(a_stop(first), epoch=first)


async def test_the_last_command_of_each_type_is_found_oldest_first(world: World) -> None:
    epoch = await world.bus.take_epoch(an_epoch())
    for number in (1, 2):
        await world.bus.publish(a_stop(epoch, number), epoch=epoch)
    await world.bus.publish(an_end(epoch), epoch=epoch)
    await world.bus.publish(a_stop(epoch, 3, job_id="other"), epoch=epoch)
    found = await world.bus.last_commands(key="job", messages=[EndJob, StopWorkers])
    assert [d.envelope.data.operation_id for d in found] == ["stop-2", "end"]
    assert await world.bus.last_commands(key="nobody", messages=[EndJob, StopWorkers]) == []


async def test_a_broken_command_does_not_hide_the_good_one_before_it(world: World) -> None:
    epoch = await world.bus.take_epoch(an_epoch())
    await world.bus.publish(a_stop(epoch, 1), epoch=epoch)
    await world.bus.publish(an_end(epoch), epoch=epoch)
    for _ in range(2):
        await world.inject(str(spec_of(StopWorkers).subject(world.cluster, "job")), b"{broken")
    found = await world.bus.last_commands(key="job", messages=[EndJob, StopWorkers])
    assert [d.envelope.data.operation_id for d in found] == ["stop-1", "end"]


async def test_ask_and_answer(world: World) -> None:
    assert await world.bus.ask(what="ping", key="node-0", timeout_s=1.0) is None

    async def reply(body: bytes) -> bytes:
        return b"pong " + body

    serving = await world.bus.answer(what="ping", key="node-0", reply=reply)
    other = await world.another()
    assert await other.ask(what="ping", key="node-0", body=b"1", timeout_s=1.0) == b"pong 1"
    assert await other.ask(what="ping", key="node-1", timeout_s=1.0) is None
    await serving.stop()
    assert await other.ask(what="ping", key="node-0", timeout_s=1.0) is None


async def test_an_answer_that_fails_is_unknown_not_absent(world: World) -> None:
    async def reply(body: bytes) -> bytes:
        raise RuntimeError("broken")

    await world.bus.answer(what="ping", key="node-0", reply=reply)
    with pytest.raises(BusUnavailable, match="RuntimeError"):
        await world.bus.ask(what="ping", key="node-0", timeout_s=1.0)


async def test_clusters_on_one_server_do_not_see_each_other(world: World) -> None:
    if isinstance(world, FakeWorld):
        foreign: Bus = MemoryBus(world.broker, cluster="foreign", name="foreign")
    else:
        assert isinstance(world, RealWorld)
        foreign = JetStreamBus(world.connections[0], cluster=f"{world.cluster}-foreign")
    seen = Seen()
    await world.bus.consume(durable="reader", messages=[StepReported, WorkersStopped], handler=seen)
    await foreign.publish(a_step(1))
    await world.bus.publish(a_step(2))
    await until(lambda: seen.steps == [2])
