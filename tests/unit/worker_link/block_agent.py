"""A scripted agent for the tests of the re-executable block, on a real socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worker_link.frames import FrameReader, encode

Reply = Callable[["Agent", dict[str, Any]], None]


class Agent(threading.Thread):
    """Answers each message of a block by the test's function; keeps what came."""

    def __init__(self, path: Path, reply: Reply) -> None:
        super().__init__(daemon=True)
        self.reply = reply
        self.seen: list[dict[str, Any]] = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen()
        self.connection: socket.socket | None = None

    def run(self) -> None:
        reader = FrameReader()
        self.connection, _ = self.listener.accept()
        try:
            while data := self.connection.recv(65536):
                reader.receive_data(data)
                while (message := reader.next_message()) is not None:
                    self.seen.append(message)
                    self.reply(self, message)
        except OSError:
            return  # the test hung up

    def send(self, kind: str, **fields: Any) -> None:
        assert self.connection is not None
        self.connection.sendall(encode({"type": kind, **fields}))

    def abort(self, version: int) -> None:
        self.send("abort", topology_version=version, reason="a peer failed")

    def go(self, version: int, **env: str) -> None:
        env = {"RANK": "1", "PHALANX_TOPOLOGY_VERSION": str(version), **env}
        self.send("go", topology_version=version, env=env, checkpoint_step=None, checkpoint_path="")

    def hang_up(self) -> None:
        assert self.connection is not None
        self.connection.shutdown(socket.SHUT_RDWR)

    def kinds(self) -> list[str]:
        return [message["type"] for message in self.seen]


def let_in(agent: Agent, message: dict[str, Any]) -> None:
    """An agent that opens the barrier at once."""
    if message["type"] == "at_barrier":
        agent.go(message["topology_version"] + 1)
