"""Which process each rank lived in, generation by generation, in the ranks' own words.

The agents report pids too. What a restart in place promises is about the processes, so it is checked with what the
processes themselves wrote down.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

Lives = Mapping[int, Mapping[int, int]]
"""Pid by topology_version and rank."""


def write_process(root: Path, *, topology_version: int, rank: int) -> None:
    """Called by a rank when it begins a generation: its pid, whole or not at all."""
    path = _path(root, topology_version, rank)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".partial{os.getpid()}")
    partial.write_text(str(os.getpid()), encoding="utf-8")
    partial.rename(path)


def read_processes(root: Path, *, topology_versions: int, world_size: int) -> Lives:
    """The generations from 1 to `topology_versions`; ranks that never began one are missing in it."""
    lives: dict[int, dict[int, int]] = {}
    for version in range(1, topology_versions + 1):
        paths = {rank: _path(root, version, rank) for rank in range(world_size)}
        lives[version] = {rank: int(path.read_text(encoding="utf-8")) for rank, path in paths.items() if path.exists()}
    return lives


def replaced_ranks(lives: Lives, before: int, after: int, *, world_size: int) -> frozenset[int] | None:
    """The ranks whose process is another one after a restart; None, unknown, when a rank left no word."""
    old, new = lives.get(before, {}), lives.get(after, {})
    if len(old) < world_size or len(new) < world_size:
        return None
    return frozenset(rank for rank in range(world_size) if old[rank] != new[rank])


def _path(root: Path, topology_version: int, rank: int) -> Path:
    return root / f"version_{topology_version}" / f"rank_{rank}.pid"
