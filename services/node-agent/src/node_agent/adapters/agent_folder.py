"""The agent's own folder: outbox, command journal, logs of the agent and its nursery; and the node's name.

One agent at a time uses a folder, so two agents of a job on one machine (a test of two nodes) get two names without
being told.
"""

from __future__ import annotations

import fcntl
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

AGENTS_PER_HOST_MAX = 256
_PLAIN = re.compile(r"[^A-Za-z0-9._-]")


def folder_name(name: str) -> str:
    """A name as a folder's name: readable, and different for different names."""
    plain = _PLAIN.sub("_", name)[:100]
    if plain == name and plain not in (".", ".."):
        return plain
    # Half a surrogate pair, from a command line that is not UTF-8, has a sum as well.
    raw = name.encode(errors="surrogatepass")
    return f"{plain}-{zlib.crc32(raw):08x}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFolder:
    """A folder held by this process until it ends."""

    path: Path
    node_id: str
    lock_fd: int

    @property
    def outbox(self) -> Path:
        """Events that the bus does not have yet."""
        return self.path / "outbox.db"

    @property
    def journal(self) -> Path:
        """Commands and their outcomes."""
        return self.path / "commands.db"

    @property
    def agent_log(self) -> Path:
        """What the agent's libraries log; the person's lines are on the terminal."""
        return self.path / "agent.log"

    @property
    def nursery_log(self) -> Path:
        """Output of the process that forks the workers."""
        return self.path / "nursery.log"


def take_agent_folder(data_dir: Path, *, job_id: str, node_id: str, host: str) -> AgentFolder:
    """Create and lock the folder of a node. Without a given node_id the first free one of HOST, HOST-2, ... is taken.

    Raises:
        OSError: it cannot be created, or another agent of this job has the given name on this machine.
    """
    parent = data_dir.absolute() / "agents" / folder_name(job_id)
    names = [node_id] if node_id else [host, *(f"{host}-{number}" for number in range(2, AGENTS_PER_HOST_MAX + 1))]
    for name in names:
        path = parent / folder_name(name)
        path.mkdir(parents=True, exist_ok=True)
        lock_fd = os.open(path / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock_fd)
            continue
        return AgentFolder(path=path, node_id=name, lock_fd=lock_fd)
    raise OSError(f"an agent of job {job_id} named {names[0]} runs on this machine already; give another --node-id")


def make_log_dir(log_dir: Path) -> Path:
    """Create the log folder and try to write into it.

    Raises:
        OSError: no output of any rank could be kept.
    """
    path = log_dir.absolute()
    path.mkdir(parents=True, exist_ok=True)
    if not os.access(path, os.W_OK | os.X_OK):
        raise OSError(f"no permission to write into {path}")
    return path
