"""Outliers among peers on real servers: replicas as processes, a killed Valkey, a host with a fake driver."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from host_cast import Machine, host_process
from peer_cast import Bench, Replicas

from fault_contracts.health import Component, ConditionCleared, ConditionRaised, Tier
from phalanx_cli.drill.fake_library import NoCompiler, build, environment
from phalanx_cli.drill.fake_state import ControlFile
from phalanx_cli.stack.nats_server import NatsServer
from phalanx_cli.stack.valkey_server import ValkeyServer
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.jetstream.streams import ensure_streams
from service_kit.settings import BusSettings

pytestmark = [pytest.mark.integration, pytest.mark.asyncio, pytest.mark.timeout(300)]

HOT_C, FINE_C = 78.0, 61.0
TOKEN = "a-token-of-enough-letters"


@pytest_asyncio.fixture
async def bench(nats_server: NatsServer, unique_name: str) -> AsyncIterator[Bench]:
    settings = BusSettings(nats_url=nats_server.url, cluster=unique_name, stream_bytes_max=64 << 20)
    connection = await connect(settings, name="bench")
    await ensure_streams(connection, settings)
    made = Bench(JetStreamBus(connection, cluster=unique_name))
    await made.bus.consume(durable="bench", messages=[ConditionRaised, ConditionCleared], handler=made.take)
    yield made
    await connection.close()


@pytest.fixture
def replicas(nats_server: NatsServer, fresh_valkey: ValkeyServer, unique_name: str, tmp_path: Path) -> Replicas:
    folder = tmp_path / "ingest"
    folder.mkdir()
    env = {
        "NATS_URL": nats_server.url,
        "REDIS_URL": fresh_valkey.url,
        "PHALANX_CLUSTER": unique_name,
        "PHALANX_STREAM_BYTES_MAX": str(64 << 20),
    }
    return Replicas(folder, env)


async def test_two_replicas_name_a_thermal_outlier_once_and_valkey_may_die(
    bench: Bench, replicas: Replicas, fresh_valkey: ValkeyServer
) -> None:
    try:
        await asyncio.gather(replicas.start(), replicas.start())
        for _ in range(2):
            await bench.tell(HOT_C)
        assert bench.raised == []
        await bench.tell_until(HOT_C, lambda: bool(bench.raised))
        (raised,) = bench.raised
        assert (raised.check, raised.tier, raised.component) == (
            "gpu_temperature_outlier",
            Tier.PROBLEM,
            Component.GPU,
        )
        assert (raised.node_id, raised.component_id) == ("n1", "GPU-3")
        for said in ("78 °C", "17 °C above the median 61 °C", "7 peers"):
            assert said in raised.reason

        fresh_valkey.kill()
        for _ in range(8):
            await bench.tell(FINE_C)
        assert bench.cleared == [], "without windows nothing is judged"
        fresh_valkey.start()
        await bench.tell_until(FINE_C, lambda: bool(bench.cleared))
        assert [each.condition_id for each in bench.cleared] == [raised.condition_id]
        assert len(bench.raised) == 1, "two replicas, one condition"
        logs = [replicas.log(number) for number in range(2)]
        assert any("peers_not_judged" in log for log in logs)
        assert all(process.poll() is None for process in replicas.running)
    finally:
        replicas.stop()


async def test_a_host_with_a_hot_gpu_is_named_from_what_the_driver_says(
    bench: Bench, replicas: Replicas, nats_server: NatsServer, unique_name: str, tmp_path: Path
) -> None:
    try:
        library = build(tmp_path / "library")
    except NoCompiler as error:
        pytest.skip(str(error))
    control = ControlFile(tmp_path / "gpus")
    work = {
        f"{gpu}.{key}": value for gpu in range(8) for key, value in {"utilization": 99, "power_mw": 650_000}.items()
    }
    control.set(work | {f"{gpu}.temperature": 60 for gpu in range(8)} | {"5.temperature": 79})
    driver = environment(library, control.path, {})
    machine = Machine(tmp_path / "machine")
    await replicas.start()
    try:
        async with host_process(machine, url=nats_server.url, cluster=unique_name, **(driver | {"PHALANX_NVML": "on"})):
            await bench.until(lambda: bool(bench.of("gpu_temperature_outlier")))
            (raised,) = bench.of("gpu_temperature_outlier")
            assert raised.node_id == "n1"
            assert raised.component_id.startswith("GPU-")
            assert "79 °C" in raised.reason
            control.set({"5.temperature": 60})
            await bench.until(lambda: raised.condition_id in {each.condition_id for each in bench.cleared})
    finally:
        replicas.stop()


async def test_an_alert_over_http_becomes_a_condition_and_its_end_clears_it(bench: Bench, replicas: Replicas) -> None:
    replicas.env |= {"PHALANX_SIGNALS_TOKEN": TOKEN, "PHALANX_SIGNALS_PORT": "0", "PHALANX_LOG_FORMAT": "json"}
    await replicas.start()
    try:
        opened = next(line for line in replicas.log(0).splitlines() if "signals_door_open" in line)
        port = json.loads(opened)["port"]
        alert = {
            "status": "firing",
            "labels": {"alertname": "NodeRAIDDiskFailure", "instance": "n1:9100", "device": "md0"},
            "startsAt": "2026-03-14T09:26:53Z",
            "fingerprint": "a1b2",
        }
        for _ in range(2):  # a webhook is sent again when its answer was lost
            await post(port, {"version": "4", "alerts": [alert]})
        await bench.until(lambda: bool(bench.raised))
        (raised,) = bench.raised
        assert (raised.check, raised.node_id, raised.tier) == ("foreign_disk_failure", "n1", Tier.PROBLEM)
        await post(port, {"version": "4", "alerts": [alert | {"status": "resolved"}]})
        await bench.until(lambda: bool(bench.cleared))
        assert [each.condition_id for each in bench.cleared] == [raised.condition_id]
        assert len(bench.raised) == 1
    finally:
        replicas.stop()


async def post(port: int, body: object) -> None:
    raw = json.dumps(body).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v1/signals/alertmanager HTTP/1.1\r\nHost: i\r\nAuthorization: Bearer {TOKEN}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + raw)
    answer = await reader.read()
    writer.close()
    assert b" 200 " in answer.partition(b"\r\n")[0], answer
