"""A real host role over a machine of files, and what it told a real bus."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent_process import AgentProcess

from fault_contracts.health import SignalsObserved
from fault_contracts.payload import Payload
from fault_contracts.registry import Stream, spec_of
from service_kit.delivery import decode
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.direct_get import every_stored
from service_kit.jetstream.streams import ensure_streams
from service_kit.settings import BusSettings

LIMIT_S = 60.0


class Machine:
    """/sys and /proc of a machine with one InfiniBand port, as files."""

    def __init__(self, folder: Path) -> None:
        self.sys, self.proc, self.data = folder / "sys", folder / "proc", folder / "data"
        self.disk = folder / "disk"
        self.disk.mkdir(parents=True)
        self.kmsg = folder / "kmsg"
        self.kmsg.touch()
        for path, text in {
            "sys/kernel/random/boot_id": "7d0c2a5e-0000-4000-8000-000000000001",
            "uptime": "4242.0 1.0",
            "self/mountinfo": "21 1 8:1 / / rw - ext4 /dev/sda1 rw",
        }.items():
            self._write(self.proc / path, text)
        adapter = self.sys / "class/infiniband/mlx5_0"
        self._write(adapter / "node_guid", "0c42:a103:00a1:b2c4")
        self.port = adapter / "ports/1"
        self._write(self.port / "rate", "400 Gb/sec (4X NDR)")
        self.link(up=True)

    def link(self, *, up: bool) -> None:
        """Plug the cable in, or pull it out."""
        self._write(self.port / "phys_state", "5: LinkUp" if up else "2: Polling")
        self._write(self.port / "state", "4: ACTIVE" if up else "1: DOWN")

    def log(self, number: int) -> None:
        """The kernel says that one more GPU fell off the bus; each line is about another."""
        text = f"NVRM: Xid (PCI:{number:04x}:3b:00): 79, GPU has fallen off the bus."
        with self.kmsg.open("a", encoding="ascii") as file:
            file.write(f"3,{number},{number * 1_000},-;{text}\n")

    def _write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_name(f"{path.name}.partial")
        half.write_text(f"{text}\n")
        half.replace(path)


def host_process(machine: Machine, *, url: str, cluster: str, node_id: str = "n1", **env: str) -> AgentProcess:
    """`phalanx host` on that machine, with intervals that a test can wait for."""
    surroundings = {
        "NATS_URL": url,
        "PHALANX_CLUSTER": cluster,
        "PHALANX_SYS_ROOT": str(machine.sys),
        "PHALANX_PROC_ROOT": str(machine.proc),
        "PHALANX_DISK_FREE_MIN": "0",
        "PHALANX_NVML": "off",
        "PHALANX_KMSG": "none",
        **env,
    }
    flags = ["--node-id", node_id, "--data-dir", str(machine.data), "--disks", str(machine.disk)]
    argv = ["-m", "phalanx_cli.main", "host", *flags, "--sweep", "0.5", "--network-interval", "0.1"]
    return AgentProcess(argv, cwd=machine.disk, env=surroundings)


class Told:
    """What lies in the stream of health messages."""

    def __init__(self, connection: Connection, cluster: str) -> None:
        self.connection = connection
        self._cluster = cluster

    async def all(self, model: type[Payload]) -> list[Any]:
        """Every message of a kind, in the order of the stream."""
        subject = spec_of(model).pattern(self._cluster)
        every = every_stored(self.connection, Stream.HEALTH, subject)
        return [decode(stored.body, stored.subject).data async for stored in every]

    async def until(self, wanted: Callable[[SignalsObserved], bool], *, after: int = 0) -> SignalsObserved:
        """The first sweep behind `after` that is wanted."""
        async with asyncio.timeout(LIMIT_S):
            while True:
                for sweep in (await self.all(SignalsObserved))[after:]:
                    if wanted(sweep):
                        return sweep  # type: ignore[no-any-return]
                await asyncio.sleep(0.1)


async def told_on(url: str, cluster: str) -> Told:
    """Connect, and make the streams that a service would make."""
    settings = BusSettings(nats_url=url, cluster=cluster, connect_limit_s=LIMIT_S)
    connection = await connect(settings, name="test")
    await ensure_streams(connection, settings)
    return Told(connection, cluster)


async def phalanx(url: str, cluster: str, *words: str) -> tuple[int, str]:
    """Run a command; exit code and stdout."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "phalanx_cli.main", *words),
        env={**os.environ, "NATS_URL": url, "PHALANX_CLUSTER": cluster},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return process.returncode or 0, out.decode()


async def node_row(url: str, cluster: str, check: str, health: str) -> dict[str, Any]:
    """Ask `phalanx node n1` until a check has a health; the row."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            _, text = await phalanx(url, cluster, "node", "n1", "--json")
            view = json.loads(text)
            for row in view["host"]["rows"] if view["answers"] else ():
                if (row["check"], row["health"]) == (check, health):
                    return row  # type: ignore[no-any-return]
