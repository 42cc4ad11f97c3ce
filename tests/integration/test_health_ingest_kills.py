"""100,000 signals while health-ingest, NATS and Valkey are killed at random: none lost, doubled or told twice."""

import asyncio
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fault_contracts.envelope import open_envelope, seal
from fault_contracts.health import Component, ConditionRaised, Sample, SignalObserved, SignalsObserved
from fault_contracts.payload import Health
from fault_contracts.registry import Bucket, Stream, spec_of
from health_ingest.adapters.kv_conditions import KvConditions
from health_ingest.domain.condition import Condition
from phalanx_cli.stack.nats_server import NatsServer
from phalanx_cli.stack.valkey_server import ValkeyServer
from service_kit.errors import ServiceError
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.direct_get import last_message
from service_kit.jetstream.key_value import JetStreamKeyValue
from service_kit.jetstream.streams import ensure_streams
from service_kit.settings import BusSettings

pytestmark = [pytest.mark.asyncio, pytest.mark.integration]
BYTES_MAX = 256 << 20
LINES = 29
AT = datetime(2030, 1, 1, tzinfo=UTC)


class IngestProcess:
    """`python -m health_ingest.main`, again and again."""

    def __init__(self, *, nats_url: str, redis_url: str, cluster: str, log_path: Path) -> None:
        self.log_path = log_path
        self._env = {
            **os.environ,
            "NATS_URL": nats_url,
            "REDIS_URL": redis_url,
            "PHALANX_CLUSTER": cluster,
            "PHALANX_STREAM_BYTES_MAX": str(BYTES_MAX),
            "PHALANX_HTTP_PORT": "0",
            "PHALANX_LOG_LEVEL": "warning",
        }
        self._process: subprocess.Popen[bytes] | None = None

    def spawn(self) -> None:
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "health_ingest.main"], env=self._env, stdout=log, stderr=log
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=15)

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")[-4_000:]


def entity_of(line: int) -> tuple[str, str, str]:
    return f"node-{line % 5}", f"GPU-{line:08x}-0000-4000-8000-000000000000", f"check_{line % 7}"


def lone(number: int) -> SignalObserved:
    node_id, gpu_uuid, check = entity_of(number % LINES)
    return SignalObserved(
        node_id=node_id,
        component=Component.GPU,
        component_id=gpu_uuid,
        check=check,
        health=Health.BAD,
        count=1 + number % 3,
        source="test",
        observed_at=AT,
    )


def sweep(number: int, of: int) -> SignalsObserved:
    """Ten samples of lines of one node."""
    lines = [line for line in range(LINES) if line % 5 == number % 5]
    chosen = [lines[(number + step) % len(lines)] for step in range(of)]
    return SignalsObserved(
        node_id=f"node-{number % 5}",
        instance_id="life",
        sweep=number,
        whole=False,
        samples=tuple(
            Sample(
                component=Component.GPU,
                component_id=entity_of(line)[1],
                check=entity_of(line)[2],
                health=Health.BAD,
                observed_at=AT,
            )
            for line in chosen
        ),
        source="test",
        observed_at=AT,
    )


class Sender:
    """Stores every message, however often the server dies under it, as an agent's outbox does."""

    def __init__(self, connection: Connection, cluster: str) -> None:
        self._bus = JetStreamBus(connection, cluster=cluster)
        self.sent: Counter[tuple[str, str, str]] = Counter()

    async def send(self, numbers: range, *, sweep_every: int = 0) -> None:
        for start in range(numbers.start, numbers.stop, 200):
            part = range(start, min(numbers.stop, start + 200))
            await asyncio.gather(*(self._one(number, sweep_every) for number in part))

    async def _one(self, number: int, sweep_every: int) -> None:
        payload: SignalObserved | SignalsObserved
        payload = sweep(number, 10) if sweep_every and number % sweep_every == 0 else lone(number)
        if isinstance(payload, SignalObserved):
            self.sent[payload.node_id, payload.component_id, payload.check] += payload.count
        else:
            for sample in payload.samples:
                self.sent[payload.node_id, sample.component_id, sample.check] += sample.count
        envelope = seal(payload, source="/test", cause_id=f"{number}", time=AT)
        while True:
            try:
                await self._bus.publish(envelope)
            except ServiceError:
                await asyncio.sleep(0.2)
            else:
                return


async def stored(connection: Connection, cluster: str) -> dict[tuple[str, str, str], Condition]:
    records = KvConditions(JetStreamKeyValue(connection, Bucket.CONDITIONS, cluster=cluster))
    found = {}
    for key in await records.keys():
        record = await records.load(key)
        if record is not None:
            entity = record.condition.entity
            found[entity.node_id, entity.component_id, entity.check] = record.condition
    return found


async def until_counted(connection: Connection, cluster: str, total: int, log: Callable[[], str]) -> None:
    """Until the sum is there; then a while longer, for what would come twice."""
    seen = -1
    try:
        async with asyncio.timeout(300):
            while seen < total:
                await asyncio.sleep(0.5)
                try:
                    seen = sum(each.total for each in (await stored(connection, cluster)).values())
                except ServiceError:
                    continue
    except TimeoutError:
        pytest.fail(f"{seen} of {total} counted; the service said:\n{log()}")
    await asyncio.sleep(2)


async def raised(connection: Connection, cluster: str) -> list[ConditionRaised]:
    """Everything that was told."""
    found: list[ConditionRaised] = []
    patterns = {spec_of(ConditionRaised).pattern(cluster)}
    bus = JetStreamBus(connection, cluster=cluster)

    async def take(delivery) -> None:
        found.append(delivery.envelope.data)

    assert patterns
    running = await bus.consume(durable="told", messages=[ConditionRaised], handler=take)
    await asyncio.sleep(2)
    await running.stop()
    return found


async def assert_exact(connection: Connection, cluster: str, sender: Sender, log: Callable[[], str]) -> None:
    await until_counted(connection, cluster, sum(sender.sent.values()), log)
    found = await stored(connection, cluster)
    assert {entity: each.total for entity, each in found.items()} == dict(sender.sent)
    assert {entity: each.count for entity, each in found.items()} == dict(sender.sent)
    told = Counter(
        (each.node_id, each.component_id, each.check, each.tier) for each in await raised(connection, cluster)
    )
    problems = {key[:3]: count for key, count in told.items() if key[3] == "problem"}
    assert problems == dict.fromkeys(sender.sent, 1), "a condition is raised once, whoever was killed"
    letters = await last_message(
        connection, Stream.DLQ, f"phx.dlq.any.dead_lettered.v1.{cluster}.health-ingest-signals"
    )
    assert letters is None, open_envelope(letters.body)


@pytest.mark.timeout(500)
async def test_nothing_is_lost_or_doubled_while_everything_is_killed(
    fresh_nats: NatsServer, fresh_valkey: ValkeyServer, unique_name: str, tmp_path: Path
) -> None:
    chance = random.Random(4)
    settings = BusSettings(nats_url=fresh_nats.url, cluster=unique_name, stream_bytes_max=BYTES_MAX)
    connection = await connect(settings, name="sender")
    await ensure_streams(connection, settings)
    ingest = IngestProcess(
        nats_url=fresh_nats.url, redis_url=fresh_valkey.url, cluster=unique_name, log_path=tmp_path / "ingest.log"
    )
    sender = Sender(connection, unique_name)
    loop = asyncio.get_running_loop()

    async def kill_service() -> None:
        ingest.kill()
        ingest.spawn()

    async def kill_nats() -> None:
        await loop.run_in_executor(None, fresh_nats.kill)
        await asyncio.sleep(0.3)
        await loop.run_in_executor(None, fresh_nats.start)

    async def kill_valkey() -> None:
        await loop.run_in_executor(None, fresh_valkey.restart)

    deeds: list[Callable[[], Awaitable[None]]] = [kill_service] * 6 + [kill_nats] * 2 + [kill_valkey]
    chance.shuffle(deeds)
    ingest.spawn()
    try:
        # 20,000 messages, every second one a sweep of ten samples: 110,000 signals.
        sending = asyncio.create_task(sender.send(range(20_000), sweep_every=2))
        for deed in deeds:
            await asyncio.sleep(chance.uniform(0.5, 4.0))
            await deed()
        await sending
        assert sum(sender.sent.values()) >= 100_000
        await assert_exact(connection, unique_name, sender, ingest.log)
    finally:
        ingest.kill()
        await connection.close()


@pytest.mark.timeout(500)
async def test_two_replicas_share_the_load_and_raise_each_condition_once(
    nats_server: NatsServer, valkey_server: ValkeyServer, unique_name: str, tmp_path: Path
) -> None:
    settings = BusSettings(nats_url=nats_server.url, cluster=unique_name, stream_bytes_max=BYTES_MAX)
    connection = await connect(settings, name="sender")
    await ensure_streams(connection, settings)
    replicas = [
        IngestProcess(
            nats_url=nats_server.url,
            redis_url=valkey_server.url,
            cluster=unique_name,
            log_path=tmp_path / f"{name}.log",
        )
        for name in ("one", "two")
    ]
    sender = Sender(connection, unique_name)
    for replica in replicas:
        replica.spawn()
    try:
        sending = asyncio.create_task(sender.send(range(12_000), sweep_every=50))
        await asyncio.sleep(8)
        replicas[0].kill()
        await asyncio.sleep(1)
        replicas[0].spawn()
        await sending
        await assert_exact(connection, unique_name, sender, lambda: replicas[0].log() + replicas[1].log())
    finally:
        for replica in replicas:
            replica.kill()
        await connection.close()
