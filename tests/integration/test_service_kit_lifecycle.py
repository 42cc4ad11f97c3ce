"""A service as a process of its own: ready, working, ended in order, and the exit code that says why."""

import asyncio
import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from fault_contracts.agent import StepReported
from phalanx_cli.stack.nats_server import NatsServer
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.ports import Delivery
from service_kit.settings import BusSettings
from service_kit.testing.messages import a_step

pytestmark = [pytest.mark.asyncio, pytest.mark.integration]

SERVICE = """
import asyncio, os, sys
from fault_contracts.agent import StepReported
from service_kit.lifecycle import Service, run_service
from service_kit.settings import BusSettings

MODE = os.environ["MODE"]

async def handle(delivery):
    print("begin", delivery.envelope.data.step, flush=True)
    if MODE == "slow":
        await asyncio.sleep(0.5)
    print("end", delivery.envelope.data.step, flush=True)

async def fail_later():
    await asyncio.sleep(0.1)
    raise RuntimeError("a bug in the background")

async def wire(service: Service[BusSettings]) -> None:
    if MODE == "broken wiring":
        raise RuntimeError("a bug in the wiring")
    service.own(await service.bus.consume(durable="lifecycle", messages=[StepReported], handler=handle))
    if MODE == "failing task":
        service.spawn(fail_later(), name="fail later")

sys.exit(run_service("a-service", BusSettings, wire))
"""


class Running:
    def __init__(self, process: asyncio.subprocess.Process, ready_file: Path) -> None:
        self.process = process
        self.ready_file = ready_file

    async def ready(self) -> dict[str, object]:
        async with asyncio.timeout(15):
            while not self.ready_file.exists():
                assert self.process.returncode is None, await self.errors()
                await asyncio.sleep(0.01)
        content: dict[str, object] = json.loads(self.ready_file.read_text())
        return content

    async def readyz(self, port: object) -> tuple[int, dict[str, str]]:
        def get() -> tuple[int, dict[str, str]]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
                    return answer.status, json.loads(answer.read())["checks"]
            except urllib.error.HTTPError as error:
                return error.code, json.loads(error.read())["checks"]

        return await asyncio.to_thread(get)

    async def line(self) -> str:
        assert self.process.stdout is not None
        return (await asyncio.wait_for(self.process.stdout.readline(), 10)).decode().strip()

    async def end(self, number: signal.Signals | None = None) -> int:
        if number is not None:
            self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), 15)

    async def errors(self) -> str:
        assert self.process.stderr is not None
        return (await self.process.stderr.read()).decode()


class Launcher:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[Running] = []

    async def __call__(self, url: str, cluster: str, mode: str = "normal", **more: str) -> Running:
        script = self.folder / "service.py"
        script.write_text(SERVICE)
        ready_file = self.folder / "ready.json"
        ready_file.unlink(missing_ok=True)
        env = {**os.environ, "NATS_URL": url, "PHALANX_CLUSTER": cluster, "MODE": mode, **more}
        env |= {"PHALANX_READY_FILE": str(ready_file), "PHALANX_STREAM_BYTES_MAX": str(64 << 20)}
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(script), env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        running = Running(process, ready_file)
        self.running.append(running)
        return running


@pytest_asyncio.fixture
async def launch(tmp_path: Path) -> AsyncIterator[Launcher]:
    launcher = Launcher(tmp_path)
    yield launcher
    for running in launcher.running:
        if running.process.returncode is None:
            running.process.kill()
            await running.process.wait()


async def bus_of(url: str, cluster: str) -> JetStreamBus:
    return JetStreamBus(await connect(BusSettings(nats_url=url, cluster=cluster), name="test"), cluster=cluster)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_service_works_until_a_signal_and_finishes_what_it_has_in_hand(
    launch: Launcher, nats_server: NatsServer, unique_name: str, number: signal.Signals
) -> None:
    service = await launch(nats_server.url, unique_name, "slow")
    ready = await service.ready()
    assert ready["pid"] == service.process.pid
    assert (await service.readyz(ready["http_port"])) == (200, {"started": "ok", "bus": "ok"})
    bus = await bus_of(nats_server.url, unique_name)
    for step in (1, 2):
        await bus.publish(a_step(step))
    assert await service.line() == "begin 1"
    assert await service.end(number) == 0
    assert await service.line() == "end 1"
    assert await service.line() == "", "the second was only queued"
    assert not service.ready_file.exists()
    rest: list[tuple[int, int]] = []

    async def take(delivery: Delivery) -> None:
        rest.append((delivery.envelope.data.step, delivery.deliveries))

    await bus.consume(durable="lifecycle", messages=[StepReported], handler=take)
    async with asyncio.timeout(3):
        while not rest:  # noqa: ASYNC110 - lies behind a port
            await asyncio.sleep(0.01)
    assert rest == [(2, 2)], "given back at the end, not after ack_wait; what was handled does not come again"
    await bus._connection.close()


async def test_a_lost_bus_is_not_ready_and_comes_back(launch: Launcher, fresh_nats: NatsServer) -> None:
    service = await launch(fresh_nats.url, "lost")
    port = (await service.ready())["http_port"]
    fresh_nats.kill()
    async with asyncio.timeout(5):
        while (await service.readyz(port))[0] == 200:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
    assert (await service.readyz(port))[1]["bus"] == "not connected to NATS"
    await asyncio.to_thread(fresh_nats.start)
    async with asyncio.timeout(5):
        while (await service.readyz(port))[0] != 200:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.02)
    bus = await bus_of(fresh_nats.url, "lost")
    await bus.publish(a_step(7))
    assert await service.line() == "begin 7"
    await bus._connection.close()
    assert await service.end(signal.SIGTERM) == 0


async def test_a_bad_setting_is_78_and_named(launch: Launcher, nats_server: NatsServer, unique_name: str) -> None:
    service = await launch(nats_server.url, unique_name, PHALANX_HTTP_PORT="many")
    assert await service.end() == 78
    shown = await service.errors()
    assert "a-service: bad settings" in shown
    assert "PHALANX_HTTP_PORT" in shown
    assert "Traceback" not in shown


async def test_a_taken_port_is_78_and_said(launch: Launcher, nats_server: NatsServer, unique_name: str) -> None:
    service = await launch(nats_server.url, unique_name, PHALANX_HTTP_PORT=str(nats_server.port))
    assert await service.end() == 78
    assert "address already in use" in (await service.errors())


async def test_no_bus_is_69_with_one_clear_line(launch: Launcher) -> None:
    service = await launch("nats://127.0.0.1:9", "nobody", PHALANX_CONNECT_LIMIT="0.5")
    assert await service.end() == 69
    shown = await service.errors()
    assert "no NATS server answered at nats://127.0.0.1:9 within 0.5 s" in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("mode", ["broken wiring", "failing task"])
async def test_a_bug_is_70_with_its_traceback(
    launch: Launcher, nats_server: NatsServer, unique_name: str, mode: str
) -> None:
    service = await launch(nats_server.url, unique_name, mode)
    assert await service.end() == 70
    assert "RuntimeError: a bug in the" in await service.errors()


async def test_a_signal_while_the_bus_is_waited_for_ends_at_once(launch: Launcher) -> None:
    service = await launch("nats://127.0.0.1:9", "nobody")
    assert service.process.stderr is not None
    await asyncio.wait_for(service.process.stderr.readline(), 10)
    started_s = time.monotonic()
    assert await service.end(signal.SIGTERM) == 0
    assert time.monotonic() - started_s < 2.0
