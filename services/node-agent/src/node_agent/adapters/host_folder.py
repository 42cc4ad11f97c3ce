"""The host role's own folder on a machine: its outbox, its lock, and host.json, by which `phalanx inject` finds it."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from node_agent.adapters.agent_folder import folder_name

HOSTS = "hosts"
CARD = "host.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFolder:
    """A folder held by this process until it ends."""

    path: Path
    lock_fd: int

    @property
    def outbox(self) -> Path:
        """Events that the bus does not have yet."""
        return self.path / "outbox.db"

    @property
    def journal(self) -> Path:
        """Orders and their outcomes."""
        return self.path / "orders.db"

    def write_card(self, card: dict[str, Any]) -> None:
        """Say on the machine who watches it, and through what. Whole or not at all."""
        half = self.path / f"{CARD}.partial"
        half.write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")
        half.replace(self.path / CARD)

    def close(self) -> None:
        """Give the folder back; the card of one that ended stays, with a pid that is gone."""
        os.close(self.lock_fd)


def host_card_path(data_dir: Path, node_id: str) -> Path:
    """Where the card of a node's host role lies."""
    return data_dir.absolute() / HOSTS / folder_name(node_id) / CARD


def take_host_folder(data_dir: Path, *, node_id: str) -> HostFolder:
    """Create and lock the folder.

    Raises:
        OSError: it cannot be created, or another host role of this name uses it.
    """
    path = host_card_path(data_dir, node_id).parent
    path.mkdir(parents=True, exist_ok=True)
    lock_fd = os.open(path / "host.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock_fd)
        raise OSError(f"a host role named {node_id} runs on {path} already; one is enough for a machine") from None
    return HostFolder(path=path, lock_fd=lock_fd)
