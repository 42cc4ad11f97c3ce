"""The first connection, permissions and streams, against a real nats-server that comes late, refuses or has no room."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fault_contracts.agent import AgentHeartbeat
from fault_contracts.registry import Stream, stream_spec
from phalanx_cli.stack.nats_server import NatsServer, SyncInterval
from service_kit.errors import BusUnavailable, PermanentError
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.jetstream.direct_get import last_message
from service_kit.jetstream.streams import _ensure, call_api, ensure_streams, stream_config
from service_kit.ports import Delivery
from service_kit.settings import BusSettings, Storage
from service_kit.testing.messages import a_heartbeat, a_step

pytestmark = [pytest.mark.asyncio, pytest.mark.integration]

CLUSTER = "start"


def settings_for(server: NatsServer, **more: Any) -> BusSettings:
    return BusSettings(nats_url=server.url, cluster=CLUSTER, stream_bytes_max=64 << 20, **more)


async def test_a_server_that_comes_later_is_waited_for(fresh_nats: NatsServer) -> None:
    fresh_nats.kill()
    connecting = asyncio.create_task(connect(settings_for(fresh_nats), name="early"))
    await asyncio.sleep(0.5)
    assert not connecting.done()
    await asyncio.to_thread(fresh_nats.start)
    opened = await asyncio.wait_for(connecting, 5)
    assert opened.is_connected
    await opened.close()


async def test_no_server_within_the_limit_is_one_clear_error(fresh_nats: NatsServer) -> None:
    fresh_nats.kill()
    url = fresh_nats.url.replace("//", "//user:secret@")
    settings = BusSettings(nats_url=url, connect_limit_s=0.6)
    with pytest.raises(BusUnavailable, match=r"no NATS server answered at .* within 0.6 s .*NATS_URL") as failure:
        await connect(settings, name="lonely")
    assert "secret" not in str(failure.value)


class StrictServer(NatsServer):
    """Knows `boss`, who may do everything, and `guest`, who may neither publish events nor read streams."""

    guest_password = "guest"

    @property
    def config(self) -> dict[str, Any]:
        guest = {"publish": {"deny": ["phx.evt.>", "$JS.API.DIRECT.>"]}}
        users = [
            {"user": "boss", "password": "boss"},
            {"user": "guest", "password": self.guest_password, "permissions": guest},
        ]
        return {**super().config, "authorization": {"users": users}, "no_auth_user": "boss"}

    def as_user(self, user: str, password: str) -> BusSettings:
        return BusSettings(nats_url=self.url.replace("//", f"//{user}:{password}@"), cluster=CLUSTER)


@pytest.fixture
def strict_nats(tmp_path: Path) -> Iterator[StrictServer]:
    server = StrictServer(data_dir=tmp_path / "strict", sync_interval=SyncInterval.DEFAULT)
    server.start()
    yield server
    server.stop()


async def test_a_denied_permission_is_said_at_once_and_is_permanent(strict_nats: StrictServer) -> None:
    boss = await connect(settings_for(strict_nats), name="boss")
    await ensure_streams(boss, settings_for(strict_nats))
    guest = await connect(strict_nats.as_user("guest", "guest"), name="guest")
    bus = JetStreamBus(guest, cluster=CLUSTER)
    started_s = time.monotonic()
    with pytest.raises(PermanentError, match="ermissions violation"):
        await bus.publish(a_step(1))
    assert time.monotonic() - started_s < 1.0
    with pytest.raises(PermanentError, match="ermissions violation"):
        await last_message(guest, Stream.AGENTS, str(a_step(1).channel(CLUSTER)), limit_s=0.3)
    await guest.close()
    await boss.close()


async def test_wrong_credentials_fail_at_once(strict_nats: StrictServer) -> None:
    started_s = time.monotonic()
    with pytest.raises(PermanentError, match="refused us"):
        await connect(strict_nats.as_user("boss", "wrong"), name="stranger")
    assert time.monotonic() - started_s < 2.0


async def test_a_server_that_forgot_us_is_asked_until_it_knows_us_again(strict_nats: StrictServer) -> None:
    guest = await connect(strict_nats.as_user("guest", "guest"), name="guest")
    bus = JetStreamBus(guest, cluster=CLUSTER)
    heard: list[str] = []

    async def on_beat(delivery: Delivery) -> None:
        heard.append(delivery.envelope.id)

    await bus.listen(messages=[AgentHeartbeat], handler=on_beat)
    strict_nats.guest_password = "changed"
    strict_nats.kill()
    await asyncio.to_thread(strict_nats.start)
    await asyncio.sleep(1.0)
    assert not guest.is_connected
    assert not guest.closed.is_set(), "nats-py would have given up for good"
    strict_nats.guest_password = "guest"
    strict_nats.kill()
    await asyncio.to_thread(strict_nats.start)
    assert await guest.wait_connected(5.0)
    boss = await connect(settings_for(strict_nats), name="boss")
    await JetStreamBus(boss, cluster=CLUSTER).publish(a_heartbeat(1))
    async with asyncio.timeout(2):
        while not heard:  # noqa: ASYNC110 - lies behind a port
            await asyncio.sleep(0.01)
    await guest.close()
    await boss.close()


@pytest.mark.parametrize("word", ["Slow Consumer", "User Authentication Expired", "maximum connections exceeded"])
async def test_an_error_line_of_the_server_is_a_reconnect_not_the_end(fresh_nats: NatsServer, word: str) -> None:
    opened = await connect(settings_for(fresh_nats), name="told-off")
    back = asyncio.Event()

    async def on_reconnected() -> None:
        back.set()

    opened.on_reconnected(on_reconnected)
    await opened.client._process_err(f"'{word}'")
    await asyncio.wait_for(back.wait(), 5)
    assert opened.is_connected
    assert not opened.closed.is_set()
    await opened.close()


async def test_streams_are_made_by_whoever_comes_first_and_kept_as_they_are(fresh_nats: NatsServer) -> None:
    settings = settings_for(fresh_nats)
    connections = [await connect(settings, name=f"service-{n}") for n in range(4)]
    await asyncio.gather(*(ensure_streams(opened, settings) for opened in connections))
    before = await call_api(connections[0], f"STREAM.INFO.{Stream.CONTROL}", {})
    await ensure_streams(connections[1], settings)
    after = await call_api(connections[0], f"STREAM.INFO.{Stream.CONTROL}", {})
    assert before["config"] == after["config"]
    assert after["config"]["republish"] == {"src": "phx.cmd.>", "dest": "phx.go.>"}
    for opened in connections:
        await opened.close()


async def test_a_limit_is_updated_and_what_cannot_be_is_named(fresh_nats: NatsServer) -> None:
    connection = await connect(settings_for(fresh_nats), name="operator")
    await ensure_streams(connection, settings_for(fresh_nats))
    larger = settings_for(fresh_nats).model_copy(update={"stream_bytes_max": 96 << 20})
    await ensure_streams(connection, larger)
    info = await call_api(connection, f"STREAM.INFO.{Stream.AGENTS}", {})
    assert info["config"]["max_bytes"] == 96 << 20
    in_memory = settings_for(fresh_nats, stream_storage=Storage.MEMORY)
    with pytest.raises(PermanentError, match=r"HEALTH .*storage is 'file', wanted 'memory'"):
        await ensure_streams(connection, in_memory)
    await connection.close()


async def test_no_room_on_the_server_names_the_setting(fresh_nats: NatsServer) -> None:
    settings = BusSettings(nats_url=fresh_nats.url, stream_bytes_max=1 << 60)
    opened = await connect(settings, name="greedy")
    huge = stream_config(replace(stream_spec(Stream.HEALTH), bytes_max=1 << 59), settings)
    with pytest.raises(PermanentError, match="PHALANX_STREAM_BYTES_MAX"):
        await _ensure(opened, huge)
    await opened.close()
