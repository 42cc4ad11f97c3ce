"""How many signals a second health-ingest turns into conditions: a real nats-server, the real service as a process.

Signals are stored first, then the service starts and reads them: `decided`. `read` is the same number read and decoded
with the same consumer and a handler that does nothing: the floor. Two loads: `storm` is 29 lines over and over, as in a
real incident (NVSentinel#1120); `wide` spreads the signals over 2,000 devices. Each figure is the median of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from fault_contracts.envelope import seal
from fault_contracts.health import Component, SignalObserved, SignalsObserved
from fault_contracts.node_actions import NodeActionReported
from fault_contracts.payload import Health
from fault_contracts.registry import Bucket
from health_ingest.adapters.kv_conditions import KvConditions
from health_ingest.application.ingest_batch import BATCH_MAX
from phalanx_cli.stack.nats_server import NatsServer, SyncInterval
from service_kit.errors import ServiceError
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.key_value import JetStreamKeyValue
from service_kit.jetstream.streams import call_api, ensure_streams
from service_kit.logging import configure_logging
from service_kit.ports import Batch
from service_kit.settings import BusSettings

ROOT = Path(__file__).resolve().parent.parent
LINES = 29
IN_FLIGHT = 500
LIMIT_S = 600.0
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured run."""

    signals: int
    wall_s: float
    cpu_s: float
    conditions: int
    rss_mb: float

    @property
    def rate_per_s(self) -> float:
        """Over the clock on the wall."""
        return self.signals / self.wall_s

    @property
    def rate_per_core_s(self) -> float:
        """Over the service's own processor time."""
        return self.signals / self.cpu_s


def signal(number: int, devices: int) -> SignalObserved:
    """One of `devices` lines."""
    line = number % devices
    return SignalObserved(
        node_id=f"node-{line % 8}",
        component=Component.GPU,
        component_id=f"GPU-{line:08x}-0000-4000-8000-000000000000",
        check=f"xid_{(13, 31, 43, 45, 74, 94, 119)[line % 7]}" if devices == LINES else "gpu_temperature",
        health=Health.BAD,
        detail="NVRM: Xid (PCI:0000:3b:00): 74, pid=4711, name=python, NVLink: fatal error detected on link 3",
        attributes={"pci_bus_id": "0000:3b:00", "pid": "4711", "process": "python"},
        boot_id="0c8a3b0e-8b1f-4a53-9d47-1f7a2d6f4c11",
        source="kmsg",
        observed_at=datetime.now(UTC),
    )


async def store(bus: JetStreamBus, count: int, devices: int) -> None:
    """Publish all of them."""
    for start in range(0, count, IN_FLIGHT):
        await asyncio.gather(
            *(
                bus.publish(seal(signal(n, devices), source="/bench", cause_id=f"{n}", time=datetime.now(UTC)))
                for n in range(start, min(count, start + IN_FLIGHT))
            )
        )


async def watched(connection: Connection, consumer: str, pid: int, count: int) -> tuple[float, float]:
    """Wall and processor seconds from the first message taken to the last one acknowledged."""
    began: tuple[float, float] | None = None
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                info = await call_api(connection, f"CONSUMER.INFO.HEALTH.{consumer}", {})
            except ServiceError:
                await asyncio.sleep(0.02)
                continue
            left = info["num_pending"] + info["num_ack_pending"]
            if began is None and info["delivered"]["consumer_seq"] > 0:
                began = (time.perf_counter(), cpu_s(pid))
            if left == 0 and info["ack_floor"]["consumer_seq"] >= count:
                assert began is not None, "nothing was delivered"
                return time.perf_counter() - began[0], cpu_s(pid) - began[1]
            await asyncio.sleep(0.02)


def cpu_s(pid: int) -> float:
    """Processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S


def rss_mb(pid: int) -> float:
    """Memory of a process at its highest."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    return 0.0


def start(env: dict[str, str], log_path: Path) -> subprocess.Popen[bytes]:
    """The service, as a process."""
    with log_path.open("wb") as log:
        return subprocess.Popen([sys.executable, "-m", "health_ingest.main"], env=env, stdout=log, stderr=log)


async def decided(server: NatsServer, cluster: str, count: int, devices: int, folder: Path) -> Figure:
    """The service takes them in."""
    settings = BusSettings(nats_url=server.url, cluster=cluster, stream_bytes_max=2 << 30)
    connection = await connect(settings, name="bench")
    await ensure_streams(connection, settings)
    await store(JetStreamBus(connection, cluster=cluster), count, devices)
    env = {
        **os.environ,
        "NATS_URL": server.url,
        "PHALANX_CLUSTER": cluster,
        "PHALANX_STREAM_BYTES_MAX": str(2 << 30),
        "PHALANX_HTTP_PORT": "0",
        "PHALANX_LOG_LEVEL": "warning",
    }
    process = start(env, folder / f"{cluster}.log")
    try:
        wall_s, used_s = await watched(connection, f"health-ingest-signals-{cluster}", process.pid, count)
        records = KvConditions(JetStreamKeyValue(connection, Bucket.CONDITIONS, cluster=cluster))
        found = [record.condition for key in await records.keys() if (record := await records.load(key)) is not None]
        assert sum(each.total for each in found) == count, "signals were lost or doubled"
        memory = rss_mb(process.pid)
    finally:
        process.terminate()
        process.wait(30)
        await connection.close()
    return Figure(signals=count, wall_s=wall_s, cpu_s=used_s, conditions=len(found), rss_mb=memory)


async def read(server: NatsServer, cluster: str, count: int) -> Figure:
    """The floor: the same messages, decoded and acknowledged."""
    connection = await connect(BusSettings(nats_url=server.url, cluster=cluster), name="floor")
    done, seen = asyncio.Event(), 0

    async def handle(batch: Batch) -> None:
        nonlocal seen
        seen += len(batch.deliveries)
        if seen >= count:
            done.set()

    wall_s, used_s = time.perf_counter(), time.process_time()
    running = await JetStreamBus(connection, cluster=cluster).consume_batches(
        durable="floor",
        messages=[SignalObserved, SignalsObserved, NodeActionReported],
        handler=handle,
        batch_max=BATCH_MAX,
    )
    await done.wait()
    await running.stop()
    wall_s, used_s = time.perf_counter() - wall_s, time.process_time() - used_s
    await connection.close()
    return Figure(signals=count, wall_s=wall_s, cpu_s=used_s, conditions=0, rss_mb=0.0)


async def bench(sync: SyncInterval, count: int, rounds: int) -> dict[str, dict[str, Figure]]:
    """All loads, each on a server of its own."""
    result: dict[str, dict[str, Figure]] = {}
    for name, devices in (("storm", LINES), ("wide", 2_000)):
        taken: dict[str, list[Figure]] = {"decided": [], "read": []}
        for turn in range(rounds):
            with tempfile.TemporaryDirectory(prefix="phalanx-bench-") as path:
                server = NatsServer(data_dir=Path(path) / "nats", sync_interval=sync)
                server.start()
                try:
                    cluster = f"{name}{turn}"
                    taken["decided"].append(await decided(server, cluster, count, devices, Path(path)))
                    taken["read"].append(await read(server, cluster, count))
                finally:
                    server.stop()
        result[name] = {what: _median(figures) for what, figures in taken.items()}
        for what, figure in result[name].items():
            print(_shown(f"{name}, {what}", figure), flush=True)
    return result


def _median(figures: list[Figure]) -> Figure:
    middle = statistics.median_low([figure.rate_per_core_s for figure in figures])
    return next(figure for figure in figures if figure.rate_per_core_s == middle)


def _shown(name: str, figure: Figure) -> str:
    return (
        f"{name:18} {figure.signals:8} {figure.rate_per_s:12.0f} {figure.rate_per_core_s:12.0f} "
        f"{figure.conditions:11} {figure.rss_mb:8.0f}"
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50_000, help="signals of each round (default 50000)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each load (default 3)")
    parser.add_argument("--sync", choices=[str(s) for s in SyncInterval], default="default", help="server's fsync")
    options = parser.parse_args()
    configure_logging(service="bench", level="warning", log_format="console")
    print(f"nats-server, sync_interval {options.sync}; {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    print(f"{'':18} {'signals':>8} {'rate/s':>12} {'per core/s':>12} {'conditions':>11} {'RSS MB':>8}")
    result = asyncio.run(bench(SyncInterval(options.sync), options.count, options.rounds))
    body = {
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]},
        "sync_interval": options.sync,
        "loads": {
            name: {
                what: {**asdict(figure), "rate_per_s": figure.rate_per_s, "rate_per_core_s": figure.rate_per_core_s}
                for what, figure in figures.items()
            }
            for name, figures in result.items()
        },
    }
    target = ROOT / ".bench" / "ingest.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
