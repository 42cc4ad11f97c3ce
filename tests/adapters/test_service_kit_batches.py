"""Batches of a real bus: whole, exact under failures, and with marks that say what is settled."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from fault_contracts.agent import StepReported, WorkersStopped
from fault_contracts.health import SignalObserved
from fault_contracts.registry import Stream, spec_of
from phalanx_cli.stack.nats_server import NatsServer
from service_kit.errors import BusUnavailable, PermanentError
from service_kit.jetstream.batch_consumer import READER_DIED_AFTER
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.direct_get import last_message
from service_kit.jetstream.streams import call_api, ensure_streams
from service_kit.ports import Batch
from service_kit.settings import BusSettings
from service_kit.testing.messages import a_step

pytestmark = [pytest.mark.asyncio, pytest.mark.integration]


@pytest_asyncio.fixture
async def connection(nats_server: NatsServer, unique_name: str) -> AsyncIterator[Connection]:
    settings = BusSettings(nats_url=nats_server.url, cluster=unique_name, stream_bytes_max=64 << 20)
    opened = await connect(settings, name="batches")
    await ensure_streams(opened, settings)
    yield opened
    await opened.close()


class Seen:
    """Collects batches; fails on demand."""

    def __init__(self, failing: Callable[[Batch], Awaitable[None]] | None = None) -> None:
        self.batches: list[Batch] = []
        self.done: list[int] = []
        self.failing = failing

    async def __call__(self, batch: Batch) -> None:
        self.batches.append(batch)
        if self.failing is not None:
            await self.failing(batch)
        self.done += steps(batch)


def steps(batch: Batch) -> list[int]:
    return [delivery.envelope.data.step for delivery in batch.deliveries]


async def until(condition: Callable[[], bool], within_s: float = 30.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - what is waited for lies behind a port
            await asyncio.sleep(0.01)


async def publish(bus: JetStreamBus, *numbers: int) -> None:
    for number in numbers:
        await bus.publish(a_step(number, node_id=f"node-{number % 3}"))


async def test_what_is_there_comes_together_and_in_order(connection: Connection, unique_name: str) -> None:
    bus = JetStreamBus(connection, cluster=unique_name)
    await publish(bus, *range(50))
    seen = Seen()
    running = await bus.consume_batches(durable="b", messages=[StepReported], handler=seen, batch_max=20)
    await until(lambda: len(seen.done) == 50)
    await running.stop()
    assert seen.done == list(range(50))
    assert max(len(batch.deliveries) for batch in seen.batches) <= 20
    assert len(seen.batches) < 50, "together, not one by one"
    assert len({batch.life for batch in seen.batches}) == 1
    assert seen.batches[0].life


async def test_what_is_acknowledged_does_not_come_again_and_moves_the_mark(
    connection: Connection, unique_name: str
) -> None:
    bus = JetStreamBus(connection, cluster=unique_name)
    await publish(bus, *range(10))
    seen = Seen()
    running = await bus.consume_batches(durable="b", messages=[StepReported], handler=seen, batch_max=20)
    await until(lambda: len(seen.done) == 10)
    await running.stop()
    last = seen.batches[-1].deliveries[-1].stream_sequence
    again = Seen()
    running = await bus.consume_batches(durable="b", messages=[StepReported], handler=again, batch_max=20)
    await publish(bus, 10)
    await until(lambda: again.done == [10])
    await running.stop()
    assert again.batches[0].settled == last


async def test_a_bus_that_is_away_costs_nothing(connection: Connection, unique_name: str) -> None:
    bus = JetStreamBus(connection, cluster=unique_name)
    left = 7

    async def failing(batch: Batch) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise BusUnavailable("the store is away")

    seen = Seen(failing)
    await publish(bus, 1, 2, 3)
    running = await bus.consume_batches(durable="b", messages=[StepReported], handler=seen, batch_max=20)
    await until(lambda: seen.done == [1, 2, 3])
    await running.stop()
    assert await last_message(connection, Stream.DLQ, f"phx.dlq.any.dead_lettered.v1.{unique_name}.b") is None


async def test_one_bad_message_does_not_cost_the_others(connection: Connection, unique_name: str) -> None:
    bus = JetStreamBus(connection, cluster=unique_name)

    async def failing(batch: Batch) -> None:
        if 2 in steps(batch):
            raise PermanentError("two is refused")

    seen = Seen(failing)
    await publish(bus, 1, 2, 3)
    running = await bus.consume_batches(durable="b", messages=[StepReported], handler=seen, batch_max=20)
    await until(lambda: seen.done == [1, 3])
    await until(lambda: len(seen.batches) >= 3)
    await running.stop()
    letter = await last_message(connection, Stream.DLQ, f"phx.dlq.any.dead_lettered.v1.{unique_name}.b")
    assert letter is not None
    assert b"two is refused" in letter.body


async def test_bytes_that_are_no_message_are_dead_lettered_and_the_rest_goes_on(
    connection: Connection, unique_name: str
) -> None:
    bus = JetStreamBus(connection, cluster=unique_name)
    await connection.client.publish(str(spec_of(StepReported).subject(unique_name, "node-0")), b"\xffnonsense")
    await connection.client.flush()
    await publish(bus, 1)
    seen = Seen()
    running = await bus.consume_batches(durable="b", messages=[StepReported], handler=seen, batch_max=20)
    await until(lambda: seen.done == [1])
    await running.stop()
    letter = await last_message(connection, Stream.DLQ, f"phx.dlq.any.dead_lettered.v1.{unique_name}.b")
    assert letter is not None


async def test_a_reader_that_stops_in_the_middle_gives_back_what_it_did_not_do(
    connection: Connection, unique_name: str
) -> None:
    bus = JetStreamBus(connection, cluster=unique_name)

    async def failing(_: Batch) -> None:
        raise BusUnavailable("never")

    stuck = Seen(failing)
    await publish(bus, 1, 2)
    running = await bus.consume_batches(durable="b", messages=[StepReported], handler=stuck, batch_max=1)
    await until(lambda: len(stuck.batches) >= 2)
    await running.stop()
    seen = Seen()
    running = await bus.consume_batches(durable="b", messages=[StepReported], handler=seen, batch_max=20)
    await until(lambda: sorted(seen.done) == [1, 2], within_s=10.0)
    await running.stop()


async def test_two_readers_share_one_durable(connection: Connection, unique_name: str) -> None:
    bus = JetStreamBus(connection, cluster=unique_name)
    await publish(bus, *range(200))
    one, two = Seen(), Seen()
    first = await bus.consume_batches(durable="b", messages=[StepReported], handler=one, batch_max=10)
    second = await bus.consume_batches(durable="b", messages=[StepReported], handler=two, batch_max=10)
    await publish(bus, *range(200, 260))
    await until(lambda: len(one.done) + len(two.done) >= 260)
    await asyncio.gather(first.stop(), second.stop())
    assert sorted(one.done + two.done) == list(range(260))
    assert one.done
    assert two.done


async def test_a_message_that_was_delivered_often_is_handled_alone_and_then_buried(
    connection: Connection, unique_name: str
) -> None:
    bus = JetStreamBus(connection, cluster=unique_name)
    await publish(bus, 1, 2)
    running = await bus.consume_batches(durable="b", messages=[StepReported], handler=Seen(), batch_max=5)
    await running.stop()
    name = f"b-{unique_name}"
    info = await call_api(connection, f"CONSUMER.INFO.AGENTS.{name}", {})
    await call_api(connection, f"CONSUMER.DELETE.AGENTS.{name}", {})
    config = {**info["config"], "ack_wait": 20_000_000}
    await call_api(connection, f"CONSUMER.CREATE.AGENTS.{name}", {"stream_name": "AGENTS", "config": config})
    # A reader that takes and never answers, as one that dies each time.
    inbox, got = connection.inbox(), 0

    async def arrived(_: object) -> None:
        nonlocal got
        got += 1

    subscription = await connection.client.subscribe(inbox, cb=arrived)
    body = b'{"batch": 100, "expires": 5000000000}'
    await connection.client.publish(f"$JS.API.CONSUMER.MSG.NEXT.AGENTS.{name}", body, reply=inbox)
    await until(lambda: got >= 2 * (READER_DIED_AFTER + 1))
    await subscription.unsubscribe()
    seen = Seen()
    running = await bus.consume_batches(durable="b", messages=[StepReported], handler=seen, batch_max=5)
    subject = f"phx.dlq.any.dead_lettered.v1.{unique_name}.b"
    async with asyncio.timeout(40):
        while await last_message(connection, Stream.DLQ, subject) is None:  # noqa: ASYNC110 - asked of the server
            await asyncio.sleep(0.05)
    await running.stop()
    assert all(len(batch.deliveries) == 1 for batch in seen.batches)


async def test_messages_of_several_streams_are_refused(connection: Connection, unique_name: str) -> None:
    bus = JetStreamBus(connection, cluster=unique_name)
    with pytest.raises(PermanentError, match="one stream"):
        await bus.consume_batches(durable="b", messages=[WorkersStopped, SignalObserved], handler=Seen(), batch_max=5)
