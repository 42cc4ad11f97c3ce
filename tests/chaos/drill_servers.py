"""Servers and services of a drill, each on a machine of the drill's network: killed for good, or started again."""

import asyncio
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import redis
from drill_net import Net

from phalanx_cli.stack.guard import GuardedProcess, ProcessSpec
from phalanx_cli.stack.nats_server import MAX_PAYLOAD_BYTES, nats_server_binary
from phalanx_cli.stack.valkey_server import valkey_server_binary

PORT, CLUSTER_PORT, MONITORING_PORT, VALKEY_PORT = 4222, 6222, 8222, 6379
START_LIMIT_S = 90.0
"""Three services import on two cores, and a cluster of three has a leader for each of a dozen streams by then."""
STREAM_BYTES_MAX = 32 << 20
"""Of each stream; a drill writes a few MB."""
LOOK_S = 0.05
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
"""Debian's package libfaketime: LD_PRELOAD, wall clock only, shifted while the process runs."""


@dataclass(slots=True)
class Program:
    """A server or service: its command line stays, its process changes."""

    name: str
    spec: ProcessSpec
    ready: Path | None = None
    process: GuardedProcess | None = field(default=None)

    def start(self) -> None:
        """Start it, again if need be."""
        if self.ready is not None:
            self.ready.unlink(missing_ok=True)
        self.process = GuardedProcess(self.spec)

    def kill(self) -> None:
        """SIGKILL, at once."""
        assert self.process is not None, f"{self.name} was never started"
        self.process.kill()

    async def is_ready(self) -> None:
        """Wait until it says so, where it does."""
        end_s = asyncio.get_running_loop().time() + START_LIMIT_S
        while self.ready is not None:
            assert self.process is not None
            assert self.process.returncode is None, f"{self.name} {self.process.ending}: {self.spec.log_path}"
            if self.ready.exists() and self.ready.read_text().strip():
                return
            assert asyncio.get_running_loop().time() < end_s, f"{self.name} is not ready: {self.spec.log_path}"
            await asyncio.sleep(LOOK_S)


class Servers:
    """What a drill runs beside the agents."""

    def __init__(self, net: Net, folder: Path, *, cluster: str, nats_servers: int, replicas: int, clocks: bool) -> None:
        self.net, self.folder, self.cluster = net, folder, cluster
        self.nats = [f"nats{number}" for number in range(1, nats_servers + 1)]
        self.cores = [f"core{number}" for number in range(1, replicas + 1)]
        self.programs: dict[str, Program] = {}
        self.disk: Path | None = None
        self._clocks = clocks
        folder.mkdir(parents=True)
        for name in (*self.nats, *self.cores):
            net.add(name)

    @property
    def nats_url(self) -> str:
        """All servers."""
        return ",".join(f"nats://{self.net.address(name)}:{PORT}" for name in self.nats)

    def small_disk(self, *, mib: int) -> None:
        """Give the (only) nats-server a disk of its own of this size."""
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m", "phxdrill", str(self.disk)], check=True)

    async def start(self) -> None:
        """All of it, in order."""
        for name in self.nats:
            self._add(name, (str(nats_server_binary()), "-c", str(self._nats_config(name))), name)
        await asyncio.gather(*(self._is_up(name) for name in self.nats))
        valkey = (str(valkey_server_binary()), "--bind", "0.0.0.0", "--port", str(VALKEY_PORT), "--save", "")
        self._add("valkey", (*valkey, "--protected-mode", "no", "--dir", str(self.folder)), self.cores[0])
        for core in self.cores:
            for module in ("health_ingest", "fault_classifier", "recovery_planner"):
                self._add_service(f"{module}@{core}", module, core)
        await asyncio.gather(*(program.is_ready() for program in self.programs.values()))

    def stop(self) -> None:
        """Services first, then servers; nothing is left."""
        for program in reversed(self.programs.values()):
            if program.process is not None:
                program.process.stop(5.0 if program.ready is not None else 1.0)
        if self.disk is not None:
            subprocess.run(["umount", "-l", str(self.disk)], check=False)

    def of(self, module: str) -> list[Program]:
        """The replicas of a service."""
        return [program for name, program in self.programs.items() if name.startswith(module)]

    def leading_planner(self) -> Program:
        """The planner that took the newest epoch, by what they logged."""
        newest: tuple[int, Program] | None = None
        for program in self.of("recovery_planner"):
            for line in program.spec.log_path.read_text(errors="replace").splitlines():
                if "lead_taken" in line:
                    epoch = int(json.loads(line)["epoch"])
                    newest = max(newest or (0, program), (epoch, program), key=lambda pair: pair[0])
        assert newest is not None, "no planner took the lead"
        return newest[1]

    def stream_leader(self, stream: str) -> str:
        """Which nats-server leads a stream, by the server's own word."""
        for name in self.nats:
            url = f"http://{self.net.address(name)}:{MONITORING_PORT}/jsz?streams=1&accounts=1&config=0"
            try:
                with urllib.request.urlopen(url, timeout=5) as answer:
                    told = json.load(answer)
            except OSError:
                continue  # this one is dead
            for account in told.get("account_details", ()):
                for row in account.get("stream_detail", ()):
                    if row["name"] == stream and row.get("cluster", {}).get("leader"):
                        return str(row["cluster"]["leader"])
        raise AssertionError(f"no server says who leads {stream}")

    def flush_valkey(self) -> None:
        """All that Valkey holds is gone."""
        with redis.Redis(host=self.net.address(self.cores[0]), port=VALKEY_PORT) as client:
            client.flushall()

    # --------------------------------------------------------------------------------------------------- parts

    def _add(self, name: str, argv: tuple[str, ...], machine: str, *, ready: Path | None = None, **env: str) -> None:
        spec = ProcessSpec(
            name=name,
            argv=(*self.net.on(machine), *argv),
            log_path=self.folder / "logs" / f"{name}.log",
            env={**os.environ, **env},
        )
        self.programs[name] = Program(name, spec, ready)
        self.programs[name].start()

    def _add_service(self, name: str, module: str, machine: str) -> None:
        ready = self.folder / "ready" / f"{name}.json"
        ready.parent.mkdir(exist_ok=True)
        self._add(
            name,
            (sys.executable, "-P", "-m", f"{module}.main"),
            machine,
            ready=ready,
            NATS_URL=self.nats_url,
            REDIS_URL=f"redis://{self.net.address(self.cores[0])}:{VALKEY_PORT}/0",
            PHALANX_CLUSTER=self.cluster,
            PHALANX_HTTP_PORT="0",
            PHALANX_READY_FILE=str(ready),
            PHALANX_LOG_FORMAT="json",
            PHALANX_STREAM_REPLICAS=str(len(self.nats)),
            PHALANX_STREAM_BYTES_MAX=str(STREAM_BYTES_MAX),
            PYTHONUNBUFFERED="1",
            **(fake_time(self.folder / f"{name}.time") if self._clocks else {}),
        )

    def _nats_config(self, name: str) -> Path:
        store = (self.disk or self.folder) / name
        config: dict[str, object] = {
            "server_name": name,
            "listen": f"{self.net.address(name)}:{PORT}",
            "http": f"{self.net.address(name)}:{MONITORING_PORT}",
            "max_payload": MAX_PAYLOAD_BYTES,
            "jetstream": {"store_dir": str(store), "sync_interval": "always", "max_file_store": 2 << 30},
        }
        if len(self.nats) > 1:
            routes = [f"nats://{self.net.address(other)}:{CLUSTER_PORT}" for other in self.nats]
            listen = f"{self.net.address(name)}:{CLUSTER_PORT}"
            config["cluster"] = {"name": "drill", "listen": listen, "routes": routes}
        path = self.folder / f"{name}.conf"
        path.write_text(json.dumps(config, indent=2))
        return path

    async def _is_up(self, name: str) -> None:
        """It greets clients, and JetStream has a leader."""
        end_s = asyncio.get_running_loop().time() + START_LIMIT_S
        url = f"http://{self.net.address(name)}:{MONITORING_PORT}/healthz"
        while True:
            code = await asyncio.to_thread(_status_of, url)
            if code == 200:
                return
            process = self.programs[name].process
            assert process is not None
            assert process.returncode is None, f"{name} {process.ending}: {self.folder}/logs"
            assert asyncio.get_running_loop().time() < end_s, f"{name} is not up ({code}): {self.folder}/logs"
            await asyncio.sleep(0.1)


def fake_time(control: Path) -> dict[str, str]:
    """Environment of a process whose wall clock `shift` can move; empty where libfaketime is not installed."""
    if not FAKETIME.exists():
        return {}
    control.parent.mkdir(parents=True, exist_ok=True)
    control.write_text("+0s\n")
    return {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(control),
        "FAKETIME_NO_CACHE": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }


def shift(control: Path, seconds: float) -> None:
    """Move the wall clock of those that were started with this file: +120 is two minutes ahead."""
    partial = control.with_suffix(".partial")
    partial.write_text(f"{seconds:+g}s\n")
    partial.rename(control)


def _status_of(url: str) -> int | str:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError as error:
        return str(error)


def why_no_fake_time() -> str:
    """Why the clock cannot be moved; empty: it can."""
    return "" if FAKETIME.exists() else "libfaketime is not installed (Debian: apt-get install libfaketime)"
