"""What the search for checkpoints needs from the file system, as Protocols. Reading only: nothing is ever changed."""

from __future__ import annotations

from typing import Protocol

from node_agent.domain.checkpoint_arrivals import Look
from node_agent.domain.checkpoint_check import CheckLevel, PathFacts


class CheckpointFiles(Protocol):
    """Looks at one checkpoint."""

    def is_elsewhere(self, path: str) -> bool:
        """Not on a file system of this machine (s3://...); known without looking."""

    async def look(self, path: str, level: CheckLevel, *, pid: int | None) -> PathFacts:
        """Look once. Never raises and never waits without a limit: no answer in time is a fact as well.

        Args:
            path: as the rank told it; a relative one is meant from where process `pid` works.
            level: how closely.
            pid: the rank's process; None when it is gone.
        """


class CheckpointFolder(Protocol):
    """Looks at the names in the watched folder."""

    @property
    def has_rank(self) -> bool:
        """Each rank writes its own: the pattern has {rank}."""

    async def look(self) -> Look:
        """Look once.

        Raises:
            FolderProblem: it could not be looked at; the message says why.
        """

    def rank_rule(self, path: str) -> tuple[tuple[str, ...], int]:
        """The path with the rank's number cut out, and the number's width."""


class FolderProblem(Exception):
    """The watched folder is missing, unreadable, or does not answer; for the person at the terminal."""
