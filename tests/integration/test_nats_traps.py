"""Traps of NATS and its client that were met in practice, each against a real nats-server that is killed or stopped."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio
from prometheus_client import REGISTRY

from fault_contracts.agent import AgentHeartbeat, StepReported
from fault_contracts.commands import StopWorkers
from fault_contracts.dead_letter import DeadLettered
from fault_contracts.registry import Bucket, Stream, spec_of
from phalanx_cli.stack.nats_server import NatsServer
from service_kit.errors import BusUnavailable, PermanentError, StaleLeader
from service_kit.jetstream import bus as bus_module
from service_kit.jetstream import consumer as consumer_module
from service_kit.jetstream import listener as listener_module
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.durable import ensure_durable
from service_kit.jetstream.key_value import JetStreamKeyValue
from service_kit.jetstream.publisher import Publisher
from service_kit.jetstream.server_answer import ServerRefusal
from service_kit.jetstream.streams import call_api, ensure_streams
from service_kit.ports import Delivery
from service_kit.settings import BusSettings
from service_kit.testing.messages import a_heartbeat, a_step, a_stop, an_epoch

pytestmark = [pytest.mark.asyncio, pytest.mark.integration]

CLUSTER = "traps"


def settings_for(server: NatsServer, **more: Any) -> BusSettings:
    return BusSettings(nats_url=server.url, cluster=CLUSTER, stream_bytes_max=64 << 20, **more)


@pytest_asyncio.fixture
async def connection(fresh_nats: NatsServer) -> AsyncIterator[Connection]:
    settings = settings_for(fresh_nats)
    opened = await connect(settings, name="traps")
    await ensure_streams(opened, settings)
    yield opened
    await opened.close()


@pytest.fixture
def bus(connection: Connection) -> JetStreamBus:
    return JetStreamBus(connection, cluster=CLUSTER)


async def until(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - what is waited for lies behind a port
            await asyncio.sleep(0.005)


async def restart(server: NatsServer) -> None:
    await asyncio.to_thread(server.start)


def metric(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


class Steps:
    """A handler that notes steps."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    async def __call__(self, delivery: Delivery) -> None:
        self.steps.append(delivery.envelope.data.step)


async def test_an_error_answer_of_the_server_fails_the_publish_at_once(connection: Connection) -> None:
    publisher = Publisher(connection)
    subject = str(a_step(1).channel(CLUSTER))
    started_s = time.monotonic()
    with pytest.raises(ServerRefusal) as wrong_sequence:
        await publisher.publish(subject, b"x", {"Nats-Expected-Last-Subject-Sequence": "77"}, limit_s=30)
    with pytest.raises(ServerRefusal, match="maximum"):
        await publisher.publish(subject, b"x" * 1_045_000, {}, limit_s=30)
    with pytest.raises(PermanentError, match="more than the server takes"):
        await publisher.publish(subject, b"x" * 2_000_000, {}, limit_s=30)
    assert wrong_sequence.value.err_code == 10071
    assert time.monotonic() - started_s < 2.0


async def test_publishes_in_flight_when_the_server_is_killed_are_stored_once(
    fresh_nats: NatsServer, connection: Connection, bus: JetStreamBus
) -> None:
    publishing = [asyncio.create_task(bus.publish(a_step(number))) for number in range(300)]
    await asyncio.sleep(0.02)
    fresh_nats.kill()
    acknowledged_before = sum(task.done() for task in publishing)
    await restart(fresh_nats)
    sequences = await asyncio.gather(*publishing)
    info = await call_api(connection, f"STREAM.INFO.{Stream.AGENTS}", {})
    assert acknowledged_before < 300, "the kill came too late to prove anything"
    assert len(set(sequences)) == 300
    assert info["state"]["messages"] == 300


async def test_what_a_killed_server_forgot_to_be_acknowledged_is_not_handled_again(
    fresh_nats: NatsServer, bus: JetStreamBus
) -> None:
    seen = Steps()
    await bus.consume(durable="reader", messages=[StepReported], handler=seen)
    for number in range(20):
        await bus.publish(a_step(number))
    await until(lambda: len(seen.steps) == 20)
    before = metric("phalanx_bus_redeliveries_total", consumer="reader")
    fresh_nats.kill()
    await restart(fresh_nats)
    await bus.publish(a_step(20))
    await until(lambda: 20 in seen.steps)
    await asyncio.sleep(0.3)
    assert seen.steps == list(range(21))
    assert metric("phalanx_bus_redeliveries_total", consumer="reader") > before, "the server forgot nothing"


async def test_a_consumer_goes_on_at_once_after_the_server_was_killed(
    fresh_nats: NatsServer, bus: JetStreamBus
) -> None:
    seen = Steps()
    await bus.consume(durable="reader", messages=[StepReported], handler=seen)
    await bus.publish(a_step(1))
    await until(lambda: seen.steps == [1])
    fresh_nats.kill()
    await restart(fresh_nats)
    await bus.publish(a_step(2))
    published_s = time.monotonic()
    await until(lambda: 2 in seen.steps)
    assert time.monotonic() - published_s < 1.0, "the pull request was not sent again"


async def test_heartbeats_and_commands_are_heard_again_after_a_restart(
    fresh_nats: NatsServer, bus: JetStreamBus
) -> None:
    seen = Steps()
    commands: list[str] = []

    async def on_command(delivery: Delivery) -> None:
        commands.append(delivery.envelope.data.operation_id)

    await bus.listen(messages=[AgentHeartbeat], handler=seen)
    await bus.listen(messages=[StopWorkers], handler=on_command)
    epoch = await bus.take_epoch(an_epoch())
    fresh_nats.kill()
    await restart(fresh_nats)
    await bus.publish(a_stop(epoch, 5), epoch=epoch)
    await bus.publish(a_heartbeat(3))
    await until(lambda: commands == ["stop-5"] and seen.steps == [3])


async def test_a_server_that_hangs_costs_a_deadline_not_for_ever(
    fresh_nats: NatsServer, connection: Connection
) -> None:
    bus = JetStreamBus(connection, cluster=CLUSTER, publish_limit_s=0.5)
    assert fresh_nats.pid is not None
    os.kill(fresh_nats.pid, signal.SIGSTOP)
    try:
        with pytest.raises(BusUnavailable, match="no acknowledgement within"):
            await bus.publish(a_step(1))
        with pytest.raises(BusUnavailable, match="no reply within"):
            await bus.ask(what="ping", key="node-0", timeout_s=0.2)
    finally:
        os.kill(fresh_nats.pid, signal.SIGCONT)
    assert await bus.publish(a_step(1)) == 1


async def test_a_plain_subscriber_hears_what_the_stream_refused_but_a_listener_does_not(
    connection: Connection, bus: JetStreamBus
) -> None:
    raw: list[str] = []
    heard: list[str] = []

    async def on_raw(msg: Any) -> None:
        raw.append(msg.subject)

    async def on_command(delivery: Delivery) -> None:
        heard.append(delivery.envelope.data.operation_id)

    await connection.client.subscribe(spec_of(StopWorkers).pattern(CLUSTER, "job"), cb=on_raw)
    await bus.listen(messages=[StopWorkers], handler=on_command, key="job")
    stale = await bus.take_epoch(an_epoch("planner-1"))
    newest = await bus.take_epoch(an_epoch("planner-2"))
    with pytest.raises(StaleLeader):
        await bus.publish(a_stop(stale, 1), epoch=stale)
    await bus.publish(a_stop(newest, 2), epoch=newest)
    await until(lambda: len(heard) == 1 and len(raw) == 2)
    assert heard == ["stop-2"]


async def test_many_fenced_commands_at_once_are_all_accepted(bus: JetStreamBus) -> None:
    epoch = await bus.take_epoch(an_epoch())
    sequences = await asyncio.gather(*(bus.publish(a_stop(epoch, n), epoch=epoch) for n in range(50)))
    assert len(set(sequences)) == 50


async def test_planners_that_take_the_lead_together_get_different_epochs(bus: JetStreamBus) -> None:
    epochs = await asyncio.gather(*(bus.take_epoch(an_epoch(f"planner-{n}")) for n in range(10)))
    assert len(set(epochs)) == 10
    await bus.publish(a_stop(max(epochs)), epoch=max(epochs))


async def test_a_subscription_is_in_force_when_listen_returns(fresh_nats: NatsServer, bus: JetStreamBus) -> None:
    """nats-py's flush overtakes the SUB command that still waits for the flusher."""
    other = await connect(settings_for(fresh_nats), name="other")
    sender = JetStreamBus(other, cluster=CLUSTER)
    for number in range(20):
        seen = Steps()
        running = await bus.listen(messages=[AgentHeartbeat], handler=seen, key=f"node-{number}")
        await sender.publish(a_heartbeat(number, node_id=f"node-{number}"))
        await until(lambda seen=seen, number=number: seen.steps == [number], within_s=1.0)  # type: ignore[misc]
        await running.stop()
    await other.close()


async def test_a_key_can_be_created_over_any_marker(connection: Connection) -> None:
    store = JetStreamKeyValue(connection, Bucket.GANGS, cluster=CLUSTER)
    subject = f"$KV.gangs.{CLUSTER}.job"
    for number, marker in enumerate(
        ({"KV-Operation": "DEL"}, {"KV-Operation": "PURGE"}, {"Nats-Marker-Reason": "MaxAge"})
    ):
        await Publisher(connection).publish(subject, b"", dict(marker), limit_s=5)
        assert await store.get("job") is None
        assert await store.keys() == []
        await store.create("job", b"%d" % number)
        entry = await store.get("job")
        assert entry is not None
        assert entry.value == b"%d" % number


async def test_more_keys_than_one_answer_holds_are_all_listed(connection: Connection) -> None:
    store = JetStreamKeyValue(connection, Bucket.CONDITIONS, cluster=CLUSTER)
    names = {f"node-{number}" for number in range(1_100)}
    await asyncio.gather(*(store.create(name, b"x") for name in names))
    assert set(await store.keys()) == names
    info = await call_api(connection, "STREAM.INFO.KV_conditions", {})
    assert info["state"]["consumer_count"] == 0


async def test_a_full_listener_drops_and_counts(bus: JetStreamBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener_module, "WAITING_MAX", 10)
    release = asyncio.Event()
    seen: list[int] = []

    async def wait(delivery: Delivery) -> None:
        await release.wait()
        seen.append(delivery.envelope.data.step)

    await bus.listen(messages=[AgentHeartbeat], handler=wait)
    before = metric("phalanx_bus_dropped_total", reason="listener_full")
    for number in range(30):
        await bus.publish(a_heartbeat(number))
    await until(lambda: metric("phalanx_bus_dropped_total", reason="listener_full") == before + 20)
    release.set()
    await until(lambda: len(seen) == 10)
    await bus.publish(a_heartbeat(99))
    await until(lambda: 99 in seen)


async def test_garbage_on_any_subject_is_dead_lettered_and_everything_else_goes_on(
    connection: Connection, bus: JetStreamBus
) -> None:
    letters: list[DeadLettered] = []
    steps, beats, stops = Steps(), Steps(), []

    async def on_letter(delivery: Delivery) -> None:
        letters.append(delivery.envelope.data)

    async def on_stop(delivery: Delivery) -> None:
        stops.append(delivery.envelope.data.operation_id)

    await bus.consume(durable="letters", messages=[DeadLettered], handler=on_letter)
    await bus.consume(durable="reader", messages=[StepReported], handler=steps)
    await bus.listen(messages=[AgentHeartbeat], handler=beats)
    await bus.listen(messages=[StopWorkers], handler=on_stop)
    places = [
        spec_of(StepReported).subject(CLUSTER, "node-0"),
        spec_of(AgentHeartbeat).subject(CLUSTER, "node-0"),
        spec_of(StopWorkers).subject(CLUSTER, "job"),
        spec_of(DeadLettered).subject(CLUSTER, "reader"),
    ]
    for place in places:
        await connection.client.publish(str(place), b"\x00garbage")
    epoch = await bus.take_epoch(an_epoch())
    await bus.publish(a_step(1))
    await bus.publish(a_heartbeat(2))
    await bus.publish(a_stop(epoch, 3), epoch=epoch)
    await until(lambda: steps.steps == [1] and beats.steps == [2] and stops == ["stop-3"] and len(letters) == 3)
    assert {letter.subject for letter in letters} == {
        str(places[0]),
        str(places[1]),
        str(places[2]).replace("phx.cmd", "phx.go"),
    }
    found = await bus.last_commands(key="job", messages=[StopWorkers])
    assert [d.envelope.data.operation_id for d in found] == ["stop-3"]


async def test_a_message_that_ends_its_readers_is_dead_lettered(connection: Connection, bus: JetStreamBus) -> None:
    letters: list[DeadLettered] = []

    async def on_letter(delivery: Delivery) -> None:
        letters.append(delivery.envelope.data)

    await bus.consume(durable="letters", messages=[DeadLettered], handler=on_letter)
    await bus.publish(a_step(1))
    name = f"reader-{CLUSTER}"
    await ensure_durable(
        connection,
        stream=Stream.AGENTS,
        name=name,
        filters=[spec_of(StepReported).pattern(CLUSTER)],
        from_now=False,
        ack_wait_s=30.0,
        ack_pending_max=1_000,
    )
    for _ in range(5):  # five readers that took it and died
        taken = await connection.client.request(
            f"$JS.API.CONSUMER.MSG.NEXT.{Stream.AGENTS}.{name}",
            b'{"batch":1,"expires":2000000000}',
            timeout=2,
            old_style=True,
        )
        await connection.client.publish(taken.reply, b"-NAK")
    seen = Steps()
    await bus.consume(durable="reader", messages=[StepReported], handler=seen)
    await bus.publish(a_step(2))
    await until(lambda: seen.steps == [2] and len(letters) == 1)
    assert letters[0].error == "ReaderDied"


async def test_a_slow_handler_keeps_its_message(bus: JetStreamBus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_module, "ACK_WAIT_S", 0.6)
    monkeypatch.setattr(bus_module, "ACK_WAIT_S", 0.6)
    seen: list[tuple[int, int]] = []

    async def slow(delivery: Delivery) -> None:
        seen.append((delivery.envelope.data.step, delivery.deliveries))
        await asyncio.sleep(1.5)

    running = await bus.consume(durable="reader", messages=[StepReported], handler=slow)
    await bus.publish(a_step(1))
    await bus.publish(a_step(2))
    await until(lambda: len(seen) == 2)
    await running.stop()
    assert seen == [(1, 1), (2, 1)]


async def test_what_was_acknowledged_before_the_end_does_not_come_again(
    fresh_nats: NatsServer, connection: Connection
) -> None:
    first = await connect(settings_for(fresh_nats), name="first")
    reading = JetStreamBus(first, cluster=CLUSTER)
    seen, again = Steps(), Steps()
    running = await reading.consume(durable="reader", messages=[StepReported], handler=seen)
    await asyncio.gather(*(reading.publish(a_step(number)) for number in range(100)))
    await until(lambda: len(seen.steps) == 100)
    await running.stop()
    await first.close()
    bus = JetStreamBus(connection, cluster=CLUSTER)
    await bus.consume(durable="reader", messages=[StepReported], handler=again)
    await bus.publish(a_step(100))
    await until(lambda: 100 in again.steps)
    assert again.steps == [100]


async def test_a_durable_that_somebody_deleted_is_made_again(connection: Connection, bus: JetStreamBus) -> None:
    seen = Steps()
    await bus.consume(durable="reader", messages=[StepReported], handler=seen)
    await bus.publish(a_step(1))
    await until(lambda: seen.steps == [1])
    await call_api(connection, f"CONSUMER.DELETE.{Stream.AGENTS}.reader-{CLUSTER}", {})
    await asyncio.sleep(0.3)
    await bus.publish(a_step(2))
    await until(lambda: 2 in seen.steps)
