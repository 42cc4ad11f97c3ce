"""The service processes of a stack: how each is run, and how it says that it is ready.

The agreement with a service: it reads NATS_URL, REDIS_URL, PHALANX_CLUSTER and PHALANX_HTTP_PORT (0 = any free
port), and once it is ready it writes `{"pid": ..., "http_port": ..., "ready_at": ...}` to the file that
PHALANX_READY_FILE names.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from phalanx_cli.stack.errors import StackError
from phalanx_cli.stack.guard import ProcessSpec
from phalanx_cli.stack.member import StackMember
from phalanx_cli.stack.state import HealthCheck, MemberRecord

SERVICE_START_TIMEOUT_S = 60.0
"""All services together, from their start: imports take seconds on busy cores, and streams are created too."""

EMBEDDED_STREAM_BYTES_MAX = 112 << 20
"""PHALANX_STREAM_BYTES_MAX of a stack with its own nats-server, unless the user sets it. The server reserves the limits
of all streams and buckets, 0.85 GiB in sum, out of three quarters of the free disk: 1.25 GiB free is enough. One of
112 MiB keeps some 220,000 events; when it is full the oldest go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSpec:
    """A service: `python -m module`, with what it needs in its environment beyond the agreement."""

    name: str
    module: str
    env: Mapping[str, str] = field(default_factory=dict)


SERVICES = (
    ServiceSpec(name="health-ingest", module="health_ingest.main"),
    ServiceSpec(name="fault-classifier", module="fault_classifier.main"),
    ServiceSpec(name="recovery-planner", module="recovery_planner.main"),
)
"""What turns a signal into a plan. The agents are not here: they run beside the training, not beside the servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSurroundings:
    """What every service of one stack is told."""

    cluster: str
    nats_url: str
    redis_url: str
    embedded_nats: bool = False


class ServiceProcess(StackMember):
    """One service of a stack."""

    def __init__(self, spec: ServiceSpec, *, surroundings: ServiceSurroundings, data_dir: Path) -> None:
        super().__init__(
            name=spec.name,
            log_path=data_dir / "logs" / f"{spec.name}.log",
            start_timeout_s=SERVICE_START_TIMEOUT_S,
        )
        self.spec = spec
        self.surroundings = surroundings
        self.ready_path = (data_dir / "ready" / f"{spec.name}.json").absolute()
        self.http_port: int | None = None

    def record(self) -> MemberRecord:
        """What the state file says about it."""
        return MemberRecord(
            name=self.name,
            identity=None if self.process is None else self.process.identity,
            health_check=HealthCheck.READYZ,
            log_path=self.log_path,
            url=None,
            http_port=self.http_port,
        )

    def _prepare(self) -> ProcessSpec:
        self.ready_path.parent.mkdir(parents=True, exist_ok=True)
        self.ready_path.unlink(missing_ok=True)
        self.http_port = None
        limits = {"PHALANX_STREAM_BYTES_MAX": str(EMBEDDED_STREAM_BYTES_MAX)} if self.surroundings.embedded_nats else {}
        env = {
            **limits,
            **os.environ,
            **self.spec.env,
            "NATS_URL": self.surroundings.nats_url,
            "REDIS_URL": self.surroundings.redis_url,
            "PHALANX_CLUSTER": self.surroundings.cluster,
            "PHALANX_HTTP_PORT": "0",
            "PHALANX_READY_FILE": str(self.ready_path),
            # The last words of a service that dies must be in its log.
            "PYTHONUNBUFFERED": "1",
        }
        # -P: a file redis.py or logging.py in the user's folder must not become a service's module.
        argv = (sys.executable, "-P", "-m", self.spec.module)
        return ProcessSpec(name=self.name, argv=argv, log_path=self.log_path, env=env)

    def _answers(self) -> bool:
        assert self.process is not None, "asked after its start"
        try:
            ready = json.loads(self.ready_path.read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            # Not written, or not wholly.
            return False
        try:
            pid, http_port = int(ready["pid"]), int(ready["http_port"])
        except (KeyError, TypeError, ValueError) as error:
            raise StackError(f"{self.name} wrote a ready file without pid and http_port: {self.ready_path}") from error
        if pid != self.process.pid:
            return False
        self.http_port = http_port
        return True
