"""A checkpoint to resume from, as commands and reports name it: one path, or one path for each rank.

Ranks of a sharded checkpoint write paths that differ by their number. 100,000 of them do not fit a message; the rule
they follow does.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fault_contracts.payload import FilePath, Payload

GROUPS_MAX = 64
INTERVALS_MAX = 50_000

RankInterval = Annotated[tuple[int, int], Field(description="First and last rank.")]


class RankPaths(Payload):
    """Ranks whose paths follow one rule."""

    ranks: tuple[RankInterval, ...] = Field(min_length=1, max_length=INTERVALS_MAX)
    parts: tuple[FilePath, ...] = Field(min_length=1, max_length=8)
    """The path with the rank's number cut out: the path is the parts with the number between them. One part: the
    same path for all of these ranks."""
    width: int = Field(default=1, ge=1, le=20)
    """The number has at least so many digits, with leading zeros."""


class CheckpointRef(Payload):
    """The checkpoint that every required rank confirmed."""

    step: int = Field(ge=0)
    path: FilePath
    """Of the lowest rank that told one; the path of every rank where `paths` says nothing else."""
    paths: tuple[RankPaths, ...] = Field(default=(), max_length=GROUPS_MAX)
    """Only where the ranks' paths differ."""
    data_path: FilePath = ""
    """The part of kind `data` (state of the data loader), in jobs that report one."""
    data_paths: tuple[RankPaths, ...] = Field(default=(), max_length=GROUPS_MAX)


def rank_path(parts: tuple[str, ...], width: int, rank: int) -> str:
    """The path that a rule gives a rank."""
    return str(rank).zfill(width).join(parts)


def path_of(ref: CheckpointRef, rank: int) -> str:
    """What a rank resumes from; empty when nobody told a path."""
    return _find(ref.paths, rank, ref.path)


def data_path_of(ref: CheckpointRef, rank: int) -> str:
    """The same for the part of kind `data`."""
    return _find(ref.data_paths, rank, ref.data_path)


def _find(groups: tuple[RankPaths, ...], rank: int, otherwise: str) -> str:
    for group in groups:
        if any(first <= rank <= last for first, last in group.ranks):
            return rank_path(group.parts, group.width, rank)
    return otherwise
