"""Keys and the CA change under agents and a planner at work: nothing is refused, nothing is lost, the old keys end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import secured
from secured import CLUSTER, SecuredServer, sign_in

from fault_contracts.commands import StopWorkers
from fault_contracts.permissions import Holder, Role
from fault_contracts.registry import Stream
from service_kit.command_signature import CommandKeys
from service_kit.errors import PermanentError
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import connect
from service_kit.jetstream.streams import call_api, ensure_streams
from service_kit.ports import Delivery
from service_kit.testing.messages import a_step, a_stop, an_epoch

pytestmark = [pytest.mark.asyncio, pytest.mark.integration, pytest.mark.timeout(240)]

AGENT = Holder(role=Role.LAUNCHER, node="n1")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SecuredServer]:
    running = SecuredServer(data_dir=tmp_path / "nats", folder=secured.make_folder(tmp_path, [AGENT]))
    running.start()
    yield running
    running.stop()


async def reload(server: SecuredServer) -> None:
    """SIGHUP, and wait until the server says that it took the new configuration."""
    log = server.data_dir / "nats-server.log"
    before = log.read_text().count("Reloaded server configuration")
    assert server.pid is not None
    os.kill(server.pid, signal.SIGHUP)
    async with asyncio.timeout(20):
        while log.read_text().count("Reloaded server configuration") == before:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


async def test_keys_and_ca_are_rotated_while_a_job_runs(server: SecuredServer) -> None:
    folder, now = server.folder, datetime.now(UTC)
    planner, agent = await sign_in(server, Role.RECOVERY_PLANNER), await sign_in(server, AGENT)
    await ensure_streams(planner, secured.settings_of(server, "recovery-planner"))
    planner_bus = JetStreamBus(planner, cluster=CLUSTER)
    agent_bus = JetStreamBus(agent, cluster=CLUSTER, command_keys=CommandKeys(folder.path / "command-keys"))
    epoch = await planner_bus.take_epoch(an_epoch())
    heard: list[str] = []

    async def hear(delivery: Delivery) -> None:
        heard.append(delivery.envelope.id)

    await agent_bus.listen(messages=[StopWorkers], handler=hear, key="job")
    told, ordered, over = 0, [], asyncio.Event()

    async def work() -> None:
        """An event and a command, again and again; none may fail."""
        nonlocal told
        while not over.is_set():
            await agent_bus.publish(a_step(told, node_id="n1"))
            order = a_stop(epoch, told, job_id="job")
            await planner_bus.publish(order, epoch=epoch)
            ordered.append(order.id)
            told += 1
            await asyncio.sleep(0.02)

    working = asyncio.create_task(work())
    old_agent, old_planner = agent.identity, planner.identity
    stolen = folder.path / "stolen.nk"
    stolen.write_bytes(folder.identity_path(AGENT.name).read_bytes())

    folder.begin_rotation(sorted(folder.ring().entries), now)
    await reload(server)
    folder.hand_out()
    folder.renew_ca(now)
    folder.renew_server(now)
    await reload(server)
    assert not working.done()
    folder.finish_rotation()
    await reload(server)
    async with asyncio.timeout(60):
        while (agent.identity, planner.identity) in ((old_agent, planner.identity), (agent.identity, old_planner)):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    enough = told + 20
    async with asyncio.timeout(60):
        while told < enough and not working.done():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    over.set()
    await working  # raises what went wrong

    kept = (await call_api(planner, f"STREAM.INFO.{Stream.AGENTS}", {}))["state"]["messages"]
    assert kept == told, "every event is stored, once"
    newest = await agent_bus.last_commands(key="job", messages=[StopWorkers])
    assert newest[0].envelope.id == ordered[-1], "signed with the new key, and obeyed"
    assert heard[-1] == ordered[-1]
    settings = secured.settings_of(server, AGENT.name).model_copy(update={"nats_nkey_seed_file": stolen})
    with pytest.raises(PermanentError, match="refused us"):
        await connect(settings, name="who kept the old key")
    await agent.close()
    await planner.close()
