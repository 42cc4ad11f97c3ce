"""A pool that is a list of names in a file: machines that stand ready and belong to nobody yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from recovery_planner.application.tending_ports import PoolAnswer
from service_kit.errors import TransientError

NAMES_MAX = 100_000
NAME_LENGTH_MAX = 256


class StaticPool:
    """tending_ports.NodePool. `is_taken` says which names the cluster uses, or has given up.

    Giving back is only noted by the planner itself: its record keeps the node out of use.
    """

    def __init__(self, path: Path, *, is_taken: Callable[[str], bool]) -> None:
        self._path = path
        self._is_taken = is_taken
        self._given: dict[str, str] = {}

    async def retire(self, node_id: str, *, request_id: str, reason: str) -> None:
        """See the port."""

    async def acquire(self, *, request_id: str, labels: Mapping[str, str]) -> PoolAnswer:  # noqa: ARG002 - the port
        """The first free name. A file has no labels: whoever wrote it chose."""
        known = self._given.get(request_id)
        if known is not None:
            return PoolAnswer(node_id=known)
        promised = set(self._given.values())
        for name in await asyncio.to_thread(read_names, self._path):
            if name not in promised and not self._is_taken(name):
                self._given[request_id] = name
                return PoolAnswer(node_id=name)
        return PoolAnswer(failed=f"no name in {self._path} is free")


def read_names(path: Path) -> list[str]:
    """One a line, `#` begins a comment.

    Raises:
        TransientError: it cannot be read, or is no list of names; somebody will mend it.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise TransientError(f"the list of nodes {path} cannot be read: {error}") from error
    names = [line.partition("#")[0].strip() for line in text.splitlines()[:NAMES_MAX]]
    wrong = next((name for name in names if len(name) > NAME_LENGTH_MAX or len(name.split()) > 1), None)
    if wrong is not None:
        raise TransientError(f"{path} has a line that is no name of a node: {wrong[:80]!r}")
    return list(dict.fromkeys(name for name in names if name))
