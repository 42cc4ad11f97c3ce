"""Measures the bus: publish, consume, latency, ask, key-value store and outbox, against a real nats-server.

Prints a table and writes the same figures to .bench/bus.json. CPU is this process alone; on a busy machine it is what
holds, and rates are a floor. `--sync always` makes the server call fsync for each write, as production does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from fault_contracts.agent import StepReported
from fault_contracts.envelope import Envelope, seal
from fault_contracts.registry import Bucket
from phalanx_cli.stack.nats_server import NatsServer, SyncInterval
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.key_value import JetStreamKeyValue
from service_kit.jetstream.streams import ensure_streams
from service_kit.outbox import Outbox
from service_kit.ports import Delivery
from service_kit.settings import BusSettings

ROOT = Path(__file__).resolve().parent.parent
AT = datetime(2030, 1, 1, tzinfo=UTC)
IN_FLIGHT = 500
KEYS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table."""

    name: str
    count: int
    rate_per_s: float
    cpu_us: float
    p50_ms: float | None = None
    p99_ms: float | None = None


def step(number: int, prefix: str) -> Envelope[StepReported]:
    """An event of about 400 bytes, spread over 64 keys."""
    payload = StepReported(
        node_id=f"{prefix}-{number % KEYS}",
        job_id="bench",
        topology_version=1,
        step=number,
        first=False,
        reported_at=AT,
    )
    return seal(payload, source="/bench", cause_id=f"{prefix}/{number}", time=AT)


async def measured(name: str, count: int, work: Callable[[], Awaitable[list[float]]]) -> Row:
    """Run it once; `work` returns latencies in seconds, or nothing."""
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    latencies = sorted(await work())
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    row = Row(
        name=name,
        count=count,
        rate_per_s=count / wall_s,
        cpu_us=cpu_s / count * 1e6,
        p50_ms=statistics.median(latencies) * 1e3 if latencies else None,
        p99_ms=latencies[int(len(latencies) * 0.99)] * 1e3 if latencies else None,
    )
    print(shown(row), flush=True)
    return row


def shown(row: Row) -> str:
    """A line of the table."""
    tail = "" if row.p50_ms is None else f"{row.p50_ms:9.2f} {row.p99_ms:9.2f}"
    return f"{row.name:44} {row.count:7} {row.rate_per_s:10.0f} {row.cpu_us:9.1f} {tail}"


async def publish_each(bus: JetStreamBus, count: int) -> list[float]:
    """Await every acknowledgement."""
    taken = []
    for number in range(count):
        started_s = time.perf_counter()
        await bus.publish(step(number, "each"))
        taken.append(time.perf_counter() - started_s)
    return taken


async def publish_together(bus: JetStreamBus, count: int) -> list[float]:
    """Up to 500 in flight."""
    for start in range(0, count, IN_FLIGHT):
        await asyncio.gather(*(bus.publish(step(start + n, "many")) for n in range(min(IN_FLIGHT, count - start))))
    return []


async def consume_all(bus: JetStreamBus, count: int) -> list[float]:
    """A durable reads what is stored, from the beginning."""
    done, seen = asyncio.Event(), 0

    async def handle(_: Delivery) -> None:
        nonlocal seen
        seen += 1
        if seen >= count:
            done.set()

    running = await bus.consume(durable="bench-all", messages=[StepReported], handler=handle)
    await done.wait()
    await running.stop()
    return []


async def publish_to_handler(sender: JetStreamBus, reader: JetStreamBus, count: int) -> list[float]:
    """From the call of publish to the handler's first line, one at a time, over two connections."""
    arrived: asyncio.Queue[float] = asyncio.Queue()

    async def handle(_: Delivery) -> None:
        arrived.put_nowait(time.perf_counter())

    running = await reader.consume(durable="bench-now", messages=[StepReported], handler=handle, from_now=True)
    taken = []
    for number in range(count):
        started_s = time.perf_counter()
        await sender.publish(step(number, "now"))
        taken.append(await arrived.get() - started_s)
    await running.stop()
    return taken


async def ask_each(sender: JetStreamBus, reader: JetStreamBus, count: int) -> list[float]:
    """Request and reply over two connections."""

    async def reply(body: bytes) -> bytes:
        return body

    serving = await reader.answer(what="ping", key="bench", reply=reply)
    taken = []
    for _ in range(count):
        started_s = time.perf_counter()
        await sender.ask(what="ping", key="bench", body=b"x", timeout_s=5)
        taken.append(time.perf_counter() - started_s)
    await serving.stop()
    return taken


async def update_each(connection: Connection, cluster: str, count: int) -> list[float]:
    """Read, then compare and set, one key."""
    store = JetStreamKeyValue(connection, Bucket.GANGS, cluster=cluster)
    revision = await store.create("bench", b"x" * 400)
    taken = []
    for _ in range(count):
        started_s = time.perf_counter()
        entry = await store.get("bench")
        assert entry is not None
        revision = await store.update("bench", entry.value, revision)
        taken.append(time.perf_counter() - started_s)
    return taken


async def outbox_urgent(bus: JetStreamBus, folder: Path, count: int) -> list[float]:
    """From put to durable (fsync or acknowledged, whichever is first), urgent, one at a time."""
    outbox = Outbox(folder / "outbox.db")
    running = asyncio.create_task(outbox.run(bus))
    await asyncio.sleep(0)
    taken = []
    for number in range(count):
        started_s = time.perf_counter()
        await outbox.put(step(number, "box"), urgent=True)
        taken.append(time.perf_counter() - started_s)
    await outbox.drain(30)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await outbox.close()
    return taken


async def bench(sync: SyncInterval, count: int) -> list[Row]:
    """All rows, on a server of its own."""
    with tempfile.TemporaryDirectory(prefix="phalanx-bench-") as name:
        folder = Path(name)
        server = NatsServer(data_dir=folder / "nats", sync_interval=sync)
        server.start()
        try:
            settings = BusSettings(nats_url=server.url, cluster="bench", stream_bytes_max=256 << 20)
            one, two = await connect(settings, name="bench-1"), await connect(settings, name="bench-2")
            await ensure_streams(one, settings)
            sender, reader = JetStreamBus(one, cluster="bench"), JetStreamBus(two, cluster="bench")
            few = max(100, count // 10)
            rows = [
                await measured("publish, each acknowledged", few, lambda: publish_each(sender, few)),
                await measured("publish, 500 in flight", count, lambda: publish_together(sender, count)),
                await measured("consume, decode, ack (64 keys)", count + few, lambda: consume_all(reader, count + few)),
                await measured("publish -> handler", few, lambda: publish_to_handler(sender, reader, few)),
                await measured("ask -> answer", few, lambda: ask_each(sender, reader, few)),
                await measured("kv get + compare-and-set", few, lambda: update_each(one, "bench", few)),
                await measured("outbox put, urgent, until durable", few, lambda: outbox_urgent(sender, folder, few)),
            ]
            await one.close()
            await two.close()
            return rows
        finally:
            server.stop()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000, help="messages of the large rows (default 20000)")
    parser.add_argument("--sync", choices=[str(s) for s in SyncInterval], default="always", help="server's fsync")
    options = parser.parse_args()
    print(f"nats-server, sync_interval {options.sync}; {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    print(f"{'':44} {'count':>7} {'rate/s':>10} {'cpu us':>9} {'p50 ms':>9} {'p99 ms':>9}")
    rows = asyncio.run(bench(SyncInterval(options.sync), options.count))
    result = {
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]},
        "sync_interval": options.sync,
        "rows": [{name: getattr(row, name) for name in Row.__dataclass_fields__} for row in rows],
    }
    target = ROOT / ".bench" / "bus.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
