"""What ranks have last said, kept for whoever asks: the newest step and when, checkpoints, labels.

Progress (domain) decides when the node has moved on; this only remembers. One dictionary write for a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from training_topology.identity import LocalRank

KINDS_MAX = 16
"""Kinds of checkpoint (model, data, ...) remembered for a rank; a script that invents more is shown the first ones."""


@dataclass(slots=True, kw_only=True)
class RankNote:
    """One local rank.

    Attributes:
        topology_version: the generation of `step`; 0: no step yet.
        step_at_s: monotonic, when the step was reported.
        checkpoints: newest confirmed step by kind; kept over restarts, as the files are.
        labels: kept over restarts; a new set replaces the old one.
    """

    topology_version: int = 0
    step: int | None = None
    step_at_s: float = 0.0
    checkpoints: dict[str, int] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)


class RankNotes:
    """The notes of this node's ranks, by local rank. A node has a fixed count of them, so this cannot grow."""

    def __init__(self) -> None:
        self._notes: dict[LocalRank, RankNote] = {}

    def of(self, local_rank: LocalRank) -> RankNote:
        """What is known of a rank; an empty note for one that said nothing."""
        return self._notes.get(local_rank) or RankNote()

    def step(self, local_rank: LocalRank, topology_version: int, step: int, *, now_s: float) -> None:
        """A step was finished."""
        note = self._note(local_rank)
        note.topology_version, note.step, note.step_at_s = topology_version, step, now_s

    def checkpoint(self, local_rank: LocalRank, kind: str, step: int) -> None:
        """A checkpoint of this kind is durable."""
        kinds = self._note(local_rank).checkpoints
        if kind in kinds or len(kinds) < KINDS_MAX:
            kinds[kind] = step

    def labels(self, local_rank: LocalRank, labels: Mapping[str, str]) -> None:
        """The rank's place in the parallel layout."""
        self._note(local_rank).labels = dict(labels)

    def _note(self, local_rank: LocalRank) -> RankNote:
        note = self._notes.get(local_rank)
        if note is None:
            note = self._notes[local_rank] = RankNote()
        return note
