"""A reader is killed with a message in hand: its next life has it at once, and a message that kills is found out."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from fault_contracts.agent import StepReported
from fault_contracts.registry import Stream, spec_of
from phalanx_cli.stack.nats_server import NatsServer
from service_kit.jetstream.ack_reply import read_receipt
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.durable import RECLAIMS_MAX, ensure_durable, reclaim_pending
from service_kit.jetstream.streams import ensure_streams
from service_kit.ports import Delivery
from service_kit.settings import BusSettings
from service_kit.testing.messages import a_step

pytestmark = [pytest.mark.asyncio, pytest.mark.integration]

READER = """
import asyncio, sys
from fault_contracts.agent import StepReported
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.settings import BusSettings

async def take(delivery):
    print("taken", delivery.envelope.data.step, flush=True)
    await asyncio.get_running_loop().create_future()

async def main():
    connection = await connect(BusSettings(nats_url=sys.argv[1]), name="victim")
    await JetStreamBus(connection, cluster=sys.argv[2]).consume(durable="reader", messages=[StepReported], handler=take)
    await asyncio.get_running_loop().create_future()

asyncio.run(main())
"""


@pytest_asyncio.fixture
async def connection(nats_server: NatsServer, unique_name: str) -> AsyncIterator[Connection]:
    settings = BusSettings(nats_url=nats_server.url, cluster=unique_name, stream_bytes_max=64 << 20)
    opened = await connect(settings, name="reclaim")
    await ensure_streams(opened, settings)
    yield opened
    await opened.close()


async def test_what_a_killed_reader_held_comes_to_the_next_one_at_once(
    connection: Connection, nats_server: NatsServer, unique_name: str
) -> None:
    bus = JetStreamBus(connection, cluster=unique_name)
    await bus.publish(a_step(41))
    victim = await asyncio.create_subprocess_exec(
        sys.executable, "-c", READER, nats_server.url, unique_name, stdout=asyncio.subprocess.PIPE
    )
    assert victim.stdout is not None
    async with asyncio.timeout(30):
        while line := await victim.stdout.readline():
            if line == b"taken 41\n":
                break
        assert line, "the victim ended by itself"
    os.kill(victim.pid, signal.SIGKILL)
    await victim.wait()

    seen: asyncio.Queue[int] = asyncio.Queue()

    async def take(delivery: Delivery) -> None:
        seen.put_nowait(delivery.envelope.data.step)

    began_s = time.monotonic()
    reading = await bus.consume(durable="reader", messages=[StepReported], handler=take, reclaim=True)
    async with asyncio.timeout(5):
        assert await seen.get() == 41
    assert time.monotonic() - began_s < 3, "it came with the reclaim, not with ack_wait (30 s)"
    await reading.stop()


async def test_a_message_that_ends_every_reader_is_counted_again_after_a_few_reclaims(
    connection: Connection, unique_name: str
) -> None:
    await JetStreamBus(connection, cluster=unique_name).publish(a_step(1))
    name, stream = f"poisoned-{unique_name}", Stream.AGENTS

    async def ensure() -> None:
        subject = spec_of(StepReported).pattern(unique_name)
        await ensure_durable(
            connection, stream=stream, name=name, filters=[subject], from_now=False, ack_wait_s=1.0, ack_pending_max=10
        )

    async def deliveries() -> int:
        inbox = connection.inbox()
        subscription = await connection.client.subscribe(inbox, max_msgs=1)
        body = json.dumps({"batch": 1, "expires": int(5e9)}).encode()
        await connection.client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}", body, reply=inbox)
        return read_receipt((await subscription.next_msg(timeout=6)).reply).deliveries

    await ensure()
    assert await deliveries() == 1
    for _ in range(RECLAIMS_MAX):
        await ensure()
        await reclaim_pending(connection, stream=stream, name=name)
        assert await deliveries() == 1, "at once, and the server has forgotten the time before"
    for expected in (2, 3):
        await ensure()
        await reclaim_pending(connection, stream=stream, name=name)
        assert await deliveries() == expected, "after ack_wait and counted, so that it becomes a dead letter in the end"
