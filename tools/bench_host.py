"""What a host role costs its machine: memory and CPU beside its NVML child, with 8 fake GPUs and an event a second.

A real nats-server, `phalanx host` as a process with its default intervals, our fake libnvidia-ml.so.1 and a file in the
place of the kernel log, to which a line about another GPU is added each second. Start-up is left out of the CPU; what
the tree of children uses is told beside it.

    make bench-health
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from phalanx_cli.drill.fake_library import BuildFailed, NoCompiler, build, environment
from phalanx_cli.drill.fake_state import ControlFile
from phalanx_cli.stack.nats_server import NatsServer, SyncInterval
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.streams import ensure_streams
from service_kit.logging import configure_logging
from service_kit.settings import BusSettings
from worker_link.process_tree import descendants, read_processes, stat_fields

NODE, CLUSTER = "bench", "bench"
GPUS = 8
EVENTS_PER_S = 1.0
TARGET_RSS_MB = 60.0
TARGET_CORE_SHARE = 0.01
READY_LIMIT_S = 60.0
_UTIME, _STIME = 11, 12
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_XID = "NVRM: Xid (PCI:0000:{bus:02x}:00): 31, pid=4242, name=python, Ch 00000008, intr 10000000. MMU Fault"


async def measure(seconds: float, folder: Path) -> dict[str, object]:
    """Run it all; the figures."""
    server = NatsServer(data_dir=folder / "nats", sync_interval=SyncInterval.DEFAULT)
    server.start()
    try:
        settings = BusSettings(nats_url=server.url, cluster=CLUSTER)
        connection = await connect(settings, name="bench")
        try:
            await ensure_streams(connection, settings)
            return await _with_host(seconds, folder, server.url, connection)
        finally:
            await connection.close()
    finally:
        server.stop()


async def _with_host(seconds: float, folder: Path, url: str, connection: Connection) -> dict[str, object]:
    state, kmsg = folder / "gpus", folder / "kmsg"
    ControlFile(state).set({"sys.count": GPUS})
    kmsg.touch()
    with (folder / "host.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "phalanx_cli.main", "host", "--node-id", NODE, "--cluster", CLUSTER),
            *("--nats-url", url, "--data-dir", str(folder), "--kmsg", str(kmsg), "--nvml", "on"),
            env=environment(build(folder), state),
            stdout=log,
            stderr=log,
        )
        try:
            rows = await _ready(connection)
            return {"rows": rows, **await _watched(process.pid, seconds, kmsg)}
        finally:
            process.terminate()
            await process.wait()


async def _ready(connection: Connection) -> int:
    """Wait until it answers with the rows of all GPUs; how many there are."""
    bus = JetStreamBus(connection, cluster=CLUSTER)
    async with asyncio.timeout(READY_LIMIT_S):
        while True:
            raw = await bus.ask(what="host_health", key=NODE, timeout_s=READY_LIMIT_S)
            rows = json.loads(raw)["rows"] if raw is not None else []
            if len({row["component_id"] for row in rows if row["component"] == "gpu" and row["component_id"]}) == GPUS:
                return len(rows)
            await asyncio.sleep(0.2)


async def _watched(pid: int, seconds: float, kmsg: Path) -> dict[str, object]:
    own_before_s, tree_before_s = _cpu_s(pid), sum(map(_cpu_s, _children(pid)))
    began_s = time.monotonic()
    rss_mb_max = 0.0
    for number in range(int(seconds * EVENTS_PER_S)):
        await asyncio.sleep(max(0.0, began_s + number / EVENTS_PER_S - time.monotonic()))
        with kmsg.open("a", encoding="ascii") as file:
            file.write(f"3,{number + 1},{number * 1_000_000},-;{_XID.format(bus=number % GPUS + 1)}\n")
        rss_mb_max = max(rss_mb_max, _rss_mb(pid))
    took_s = time.monotonic() - began_s
    children = _children(pid)
    return {
        "seconds": round(took_s, 1),
        "host_rss_mb": round(rss_mb_max, 1),
        "host_core_share": round((_cpu_s(pid) - own_before_s) / took_s, 5),
        "children": len(children),
        "children_rss_mb": round(sum(map(_rss_mb, children)), 1),
        "children_core_share": round((sum(map(_cpu_s, children)) - tree_before_s) / took_s, 5),
    }


def _children(pid: int) -> list[int]:
    return list(descendants(read_processes(), [pid]))


def _cpu_s(pid: int) -> float:
    fields = stat_fields(pid)
    return 0.0 if fields is None else (int(fields[_UTIME]) + int(fields[_STIME])) / _TICKS_PER_S


def _rss_mb(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0.0  # it ended meanwhile
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> int:
    """Measure and print; exit code 1 when a target is missed."""
    parser = argparse.ArgumentParser(description="Memory and CPU of a host role with 8 fake GPUs.")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to watch it; two full looks fit into 60")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    configure_logging(service="bench", level="error")
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(measure(options.seconds, Path(folder)))
    except (NoCompiler, BuildFailed) as error:
        sys.stderr.write(f"bench_host: {error}\n")
        return 3
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    rss_mb, share = float(str(found["host_rss_mb"])), float(str(found["host_core_share"]))
    sys.stdout.write(
        f"host role, {GPUS} GPUs, {found['rows']} rows, {EVENTS_PER_S:g} event/s, {found['seconds']} s:\n"
        f"  itself    {rss_mb:6.1f} MB (target under {TARGET_RSS_MB:g}), {share:.2%} of a core "
        f"(target under {TARGET_CORE_SHARE:.0%})\n"
        f"  children  {found['children_rss_mb']:>6} MB, {float(str(found['children_core_share'])):.2%} of a core "
        f"({found['children']} processes)\n"
    )
    return 0 if rss_mb < TARGET_RSS_MB and share < TARGET_CORE_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
