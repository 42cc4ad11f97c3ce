"""One embedded server: loopback only, a folder of its own, the same port over a restart."""

import abc
from pathlib import Path

from phalanx_cli.stack.guard import ProcessSpec
from phalanx_cli.stack.member import StackMember

START_TIMEOUT_S = 15.0
"""A start takes 0.1 s on an idle machine; a loaded one with a long journal to read is given two orders more."""


class EmbeddedServer(StackMember):
    """A server on loopback with its own folder. `port` none means any free one; a restart keeps the one it had."""

    def __init__(self, *, name: str, data_dir: Path, log_path: Path | None, port: int | None) -> None:
        self.data_dir = data_dir.absolute()
        super().__init__(name=name, log_path=log_path or data_dir / f"{name}.log", start_timeout_s=START_TIMEOUT_S)
        self._port: int | None = port

    @property
    def port(self) -> int:
        """The port it listens on."""
        assert self._port is not None, f"{self.name} was never started"
        return self._port

    @property
    @abc.abstractmethod
    def url(self) -> str:
        """Where clients connect."""

    def _prepare(self) -> ProcessSpec:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        return ProcessSpec(name=self.name, argv=self._configure(), log_path=self.log_path)

    @abc.abstractmethod
    def _configure(self) -> tuple[str, ...]:
        """Write the server's configuration and return its command line."""
