"""Checkpoints in shards: every rank writes its slice of the state, and a checkpoint counts when every rank confirmed.

A shard is written beside its name, synced and renamed: a rank killed while writing leaves no shard, so its missing
confirmation and its missing file say the same.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor

State = tuple[Tensor, ...]
"""Flat tensors of equal length."""


def checkpoint_folder(root: Path, step: int, *, world_size: int) -> Path:
    """The one path that all ranks report for a step; a gang of another size writes shards of its own beside it."""
    return root / f"step_{step:08d}_of_{world_size}"


def save_shard(folder: Path, state: State, *, rank: int, world_size: int) -> None:
    """Write this rank's slice durably; the same call again replaces it by the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    path = _shard(folder, rank, world_size)
    partial = path.with_suffix(f".partial{os.getpid()}")
    with partial.open("wb") as file:
        torch.save([part.clone() for part in _slices(state, rank, world_size)], file)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def load_shards(folder: Path, state: State) -> None:
    """Fill the state from the shards of all ranks that wrote it, however many read it.

    Raises:
        FileNotFoundError: a shard is missing; the checkpoint was not confirmed by every rank.
    """
    world_size = _writers(folder)
    for rank in range(world_size):
        parts = torch.load(_shard(folder, rank, world_size), weights_only=True)
        for whole, part in zip(_slices(state, rank, world_size), parts, strict=True):
            whole.copy_(part)


def _writers(folder: Path) -> int:
    """How many ranks wrote a checkpoint, from the name of its folder."""
    return int(folder.name.rpartition("_of_")[2])


def _shard(folder: Path, rank: int, world_size: int) -> Path:
    return folder / f"shard_{rank}_of_{world_size}.pt"


def _slices(state: State, rank: int, world_size: int) -> State:
    length = len(state[0])
    return tuple(part[length * rank // world_size : length * (rank + 1) // world_size] for part in state)
