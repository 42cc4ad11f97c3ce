"""One life of a re-executable block: place in the gang, store address and checkpoint, as the environment says them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from worker_link.block_messages import Go

_CHECKPOINT_STEP, _CHECKPOINT_PATH = "PHALANX_CHECKPOINT_STEP", "PHALANX_CHECKPOINT_PATH"
_CHECKPOINT_DATA_PATH = "PHALANX_CHECKPOINT_DATA_PATH"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What the user's function is called with.

    Attributes:
        restart_count: restarts of the job so far, over all levels.
        checkpoint: step and path that every required rank confirmed; None: start afresh.
        in_place: this process ran the block before: whatever the script kept in memory is still there.
    """

    rank: int
    local_rank: int
    world_size: int
    topology_version: int
    restart_count: int
    checkpoint: tuple[int, str] | None
    in_place: bool = False


def checkpoint_of(env: Mapping[str, str]) -> tuple[int, str] | None:
    """Step and path of the checkpoint to resume from, or None."""
    step, path = env.get(_CHECKPOINT_STEP), env.get(_CHECKPOINT_PATH)
    if not step or not path:
        return None
    return int(step), path


def generation_of(env: Mapping[str, str], *, in_place: bool = False) -> Generation:
    """The generation that an environment describes; rank 0 of 1 outside any launcher."""
    return Generation(
        rank=int(env.get("RANK") or 0),
        local_rank=int(env.get("LOCAL_RANK") or 0),
        world_size=int(env.get("WORLD_SIZE") or 1),
        topology_version=int(env.get("PHALANX_TOPOLOGY_VERSION") or 0),
        restart_count=int(env.get("TORCHELASTIC_RESTART_COUNT") or 0),
        checkpoint=checkpoint_of(env),
        in_place=in_place,
    )


def put_in_place(go: Go) -> Generation:
    """Make this process's environment that of a new generation."""
    for name in (_CHECKPOINT_STEP, _CHECKPOINT_PATH, _CHECKPOINT_DATA_PATH):
        os.environ.pop(name, None)
    os.environ.update(go.env)
    if go.checkpoint_step is not None:
        os.environ[_CHECKPOINT_STEP] = str(go.checkpoint_step)
        os.environ[_CHECKPOINT_PATH] = go.checkpoint_path
    return generation_of(os.environ, in_place=True)
