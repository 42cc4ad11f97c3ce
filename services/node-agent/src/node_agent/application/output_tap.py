"""The door through which the output of the ranks is watched while it goes to files and terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from node_agent.domain.log_rule import LogStream
from training_topology.identity import LocalRank, Rank


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPlace:
    """Whose output it is, as of the time it was read: a restart in place gives a process a new place."""

    topology_version: int
    rank: Rank
    local_rank: LocalRank


class OutputTap(Protocol):
    """Gets a copy of everything. Called while pipes are being emptied: must return at once."""

    def take(self, place: OutputPlace, stream: LogStream, data: bytes) -> None:
        """Some bytes, cut anywhere."""

    def end(self, place: OutputPlace, stream: LogStream) -> None:
        """The stream ended: nothing holds it open any more."""
