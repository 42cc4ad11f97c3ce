"""The outbox on a real bus that dies and comes back."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from fault_contracts.agent import StepReported
from phalanx_cli.stack.nats_server import NatsServer
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.jetstream.streams import ensure_streams
from service_kit.outbox import Outbox
from service_kit.ports import Delivery
from service_kit.settings import BusSettings
from service_kit.testing.messages import a_step

pytestmark = [pytest.mark.asyncio, pytest.mark.integration]


FREEZE_NEVER = 20
"""Not among the first 20 events: all of them are acknowledged before the server dies."""


@pytest.mark.parametrize("freeze_at", [FREEZE_NEVER, 0, 10, 15])
async def test_events_of_an_outage_arrive_once_and_in_order(
    fresh_nats: NatsServer, tmp_path: Path, freeze_at: int
) -> None:
    settings = BusSettings(nats_url=fresh_nats.url, cluster="outbox", stream_bytes_max=64 << 20)
    connection = await connect(settings, name="agent")
    await ensure_streams(connection, settings)
    bus = JetStreamBus(connection, cluster="outbox", publish_limit_s=0.5)
    steps: list[int] = []

    async def on_step(delivery: Delivery) -> None:
        steps.append(delivery.envelope.data.step)

    await bus.consume(durable="reader", messages=[StepReported], handler=on_step)
    outbox = Outbox(tmp_path / "outbox.db")
    running = asyncio.create_task(outbox.run(bus))
    for number in range(20):
        if number == freeze_at:  # from here on nothing is acknowledged: the rest is in flight when the server dies
            os.kill(fresh_nats.pid, signal.SIGSTOP)
        await outbox.put(a_step(number), urgent=number == 10)
    if freeze_at == FREEZE_NEVER:
        assert await outbox.drain(10) == 0
    fresh_nats.kill()
    async with asyncio.timeout(3):
        for number in range(20, 60):
            await outbox.put(a_step(number), urgent=number == 30)
    await asyncio.sleep(0.7)
    if freeze_at == FREEZE_NEVER:
        assert len(outbox) == 40
    else:
        assert len(outbox) >= 60 - freeze_at
    await asyncio.to_thread(fresh_nats.start)
    assert await outbox.drain(10) == 0
    async with asyncio.timeout(5):
        while len(steps) < 60:  # noqa: ASYNC110 - lies behind a port
            await asyncio.sleep(0.01)
    assert steps == list(range(60))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await outbox.close()
    await connection.close()
