"""Garbage on any subject becomes a dead letter that says what is wrong, and everything else goes on."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from fault_contracts.commands import StopWorkers
from fault_contracts.dead_letter import DeadLettered
from fault_contracts.envelope import open_envelope
from fault_contracts.registry import DURABLY_READ, MESSAGES, STREAMS, Stream, spec_of
from phalanx_cli.stack.nats_server import NatsServer
from phalanx_cli.stack.stack import Stack
from service_kit.clock import SystemClock
from service_kit.jetstream.auditor import Auditor
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.dead_letters import DeadLetters
from service_kit.jetstream.direct_get import stored_messages
from service_kit.jetstream.publisher import Publisher
from service_kit.jetstream.streams import call_api, ensure_streams
from service_kit.ports import Delivery
from service_kit.settings import BusSettings
from service_kit.testing.messages import a_heartbeat, a_step, a_stop, an_epoch

pytestmark = [pytest.mark.asyncio, pytest.mark.integration, pytest.mark.timeout(120)]

CLUSTER = "audited"


@pytest_asyncio.fixture
async def connection(fresh_nats: NatsServer) -> AsyncIterator[Connection]:
    settings = BusSettings(nats_url=fresh_nats.url, cluster=CLUSTER, stream_bytes_max=64 << 20)
    opened = await connect(settings, name="audit")
    await ensure_streams(opened, settings)
    yield opened
    await opened.close()


async def letters(connection: Connection, count: int, within_s: float = 15.0) -> list[DeadLettered]:
    """Dead letters, once there are so many."""
    async with asyncio.timeout(within_s):
        while True:
            stored = await stored_messages(connection, Stream.DLQ, "phx.dlq.>", from_sequence=1)
            if len(stored) >= count:
                return [open_envelope(letter.body).data for letter in stored]
            await asyncio.sleep(0.05)


def an_auditor(connection: Connection) -> Auditor:
    dead_letters = DeadLetters(Publisher(connection), cluster=CLUSTER, source="/test", clock=SystemClock())
    return Auditor(connection, cluster=CLUSTER, name="audit", dead_letters=dead_letters)


GARBAGE = {
    "phx.evt.nonsense.happened.v1.audited.k": (b"{}", "evt.nonsense.happened.v1' is not registered"),
    "phx.evt.agent.step_reported.v1.audited.node.0": (b"{}", "is not phx.<kind>"),
    "phx.evt.agent.step_reported.v99.audited.node-0": (b"{}", "evt.agent.step_reported.v99' is not registered"),
    "phx.evt.recovery.planned.v1.audited.job": (b"{not json", "Invalid JSON"),
    "phx.cmd.gang.start_workers.v1.audited.job": (b"\xff\xfe", "Invalid JSON"),
    "phx.cmd.gang.blow_up.v1.audited.job": (b"{}", "cmd.gang.blow_up.v1' is not registered"),
    "phx.go.rubbish": (b"", "is not phx.<kind>"),
}


async def test_garbage_on_any_subject_is_dead_lettered_once_and_says_why(connection: Connection) -> None:
    bus = JetStreamBus(connection, cluster=CLUSTER)
    kept_before = "phx.cmd.gang.end_job.v1.audited.job"
    await connection.client.publish(kept_before, b"from before the auditor began")
    await connection.settle()
    auditor = an_auditor(connection)
    await auditor.start()
    await connection.settle()
    # What is well, and what is another's: a healthy event, a heartbeat, a command, another cluster's, garbage that a
    # durable consumer will meet and dead-letter itself.
    epoch = await bus.take_epoch(an_epoch())
    await bus.publish(a_step(1))
    await bus.publish(a_heartbeat(1))
    await bus.publish(a_stop(epoch, 1), epoch=epoch)
    await connection.client.publish("phx.cmd.gang.start_workers.v1.other.job", b"not ours")
    await connection.client.publish("phx.evt.agent.step_reported.v1.audited.node-0", b"its consumer's business")
    for subject, (body, _) in GARBAGE.items():
        await connection.client.publish(subject, body)
    await letters(connection, len(GARBAGE) + 1)
    await asyncio.sleep(1.0)
    found = {letter.subject: letter for letter in await letters(connection, len(GARBAGE) + 1)}
    assert set(found) == {*GARBAGE, kept_before}
    for subject, (_, why) in GARBAGE.items():
        assert why in found[subject].message, subject
        assert found[subject].consumer == "audit"
    assert found["phx.cmd.gang.blow_up.v1.audited.job"].stream == Stream.CONTROL
    assert found["phx.cmd.gang.blow_up.v1.audited.job"].stream_sequence
    await auditor.stop()
    for stream in (Stream.AGENTS, Stream.CONTROL, Stream.JOURNAL):
        info = await call_api(connection, f"CONSUMER.INFO.{stream}.audit-{CLUSTER}", {})
        assert (info["num_pending"], info["num_ack_pending"]) == (0, 0), f"everything in {stream} was looked at"


async def test_a_broken_command_is_one_letter_and_hides_no_good_one(connection: Connection) -> None:
    bus = JetStreamBus(connection, cluster=CLUSTER)
    epoch = await bus.take_epoch(an_epoch())
    await bus.publish(a_stop(epoch, 1), epoch=epoch)
    heard: list[Delivery] = []

    async def obey(delivery: Delivery) -> None:
        heard.append(delivery)

    others = []
    for number in range(2):
        settings = BusSettings(nats_url=connection.client.connected_url.geturl(), cluster=CLUSTER)
        other = await connect(settings, name=f"node-agent node-{number}")
        others.append(other)
        await JetStreamBus(other, cluster=CLUSTER).listen(messages=[StopWorkers], handler=obey, key="job")
    subject = str(spec_of(StopWorkers).subject(CLUSTER, "job"))
    await connection.client.publish(subject, b"{broken")
    await connection.client.publish(subject, b"{broken again")
    assert {letter.consumer for letter in await letters(connection, 2)} == {"node-agent"}
    agent = JetStreamBus(others[0], cluster=CLUSTER)
    for _ in range(3):
        [found] = await agent.last_commands(key="job", messages=[StopWorkers])
        assert found.envelope.data.fence.topology_version == 1, "the good command before the broken ones"
    await bus.publish(a_stop(epoch, 2), epoch=epoch)
    async with asyncio.timeout(5):
        while len(heard) < 2:  # noqa: ASYNC110 - what is waited for lies behind a port
            await asyncio.sleep(0.01)
    assert len(await letters(connection, 2)) == 2, "not one for each agent, and not one for each look"
    for other in others:
        await other.close()


async def test_the_services_read_what_the_registry_says_they_read(tmp_path: Path) -> None:
    async with Stack(tmp_path, "local") as stack:
        settings = BusSettings(nats_url=stack.nats_url)
        connection = await connect(settings, name="look")
        filters: set[str] = set()
        for spec in STREAMS:
            found = await call_api(connection, f"CONSUMER.LIST.{spec.name}", {})
            for consumer in found["consumers"]:
                config = consumer["config"]
                filters |= set(config.get("filter_subjects") or [config["filter_subject"]])
        read = {message.model for message in MESSAGES if message.pattern("local") in filters}
        assert read == DURABLY_READ, "the auditor decodes exactly what no service reads"
        await connection.client.publish("phx.evt.recovery.planned.v1.local.job", json.dumps({"type": "x"}).encode())
        [letter] = await letters(connection, 1)
        assert (letter.consumer, letter.stream) == ("health-ingest-audit", Stream.JOURNAL)
        await connection.client.publish("phx.dlq.any.dead_lettered.v1.local.k", b"\x1b[2J")
        await connection.settle()
        table, rows = await shown(tmp_path), await shown(tmp_path, "--format", "json")
        assert "phx.evt.recovery.planned.v1.local.job" in table[1]
        assert "JOURNAL/" in table[1]
        assert "Unreadable" in table[2]
        assert [json.loads(row)["error"] for row in rows] == ["ContractViolation", "Unreadable"]
        assert json.loads(rows[0])["body"] == '{"type": "x"}'
        await connection.close()


async def shown(data_dir: Path, *options: str) -> list[str]:
    """The output of `phalanx dlq` for a running stack."""
    argv = ["-m", "phalanx_cli.main", "dlq", "--data-dir", str(data_dir), *options]
    env = {name: value for name, value in os.environ.items() if name != "NATS_URL"}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *argv, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
    return output.decode().splitlines()
