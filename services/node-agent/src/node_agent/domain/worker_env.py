"""The environment of a worker: what torchrun sets, and a few names of ours.

Source of torchrun's names and values: torch 2.13, torch/distributed/elastic/agent/server/local_elastic_agent.py,
`LocalElasticAgent._start_workers`, and torch/distributed/run.py, `config_from_args` (OMP_NUM_THREADS).
TORCHELASTIC_ERROR_FILE and PHALANX_WORKER_SOCKET are added where files and sockets are known, in the adapters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from fault_contracts.checkpoints import CheckpointRef, data_path_of, path_of

LOCAL_RANK_MACRO = "${local_rank}"
"""torchrun replaces this in the script's arguments (torch/distributed/elastic/agent/server/api.py, `macros`)."""
DATA_PATH_NAME = "PHALANX_CHECKPOINT_DATA_PATH"
_STALE = ("PHALANX_CHECKPOINT_STEP", "PHALANX_CHECKPOINT_PATH", DATA_PATH_NAME, "TORCHELASTIC_ERROR_FILE")
"""Must not leak from the agent's own surroundings into a worker that starts without a checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlace:
    """Where a worker stands. torchrun's group is our node, and all workers have one role.

    Attributes:
        virtual_local_rank: torchrun's flag: each worker sees its GPU alone, as device 0, and is told LOCAL_RANK 0.
    """

    rank: int
    local_rank: int
    world_size: int
    nproc: int
    node_rank: int
    nnodes: int
    virtual_local_rank: bool = False


class NoDevice(ValueError):
    """CUDA_VISIBLE_DEVICES names fewer devices than there are workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """What all workers of one topology_version share."""

    job_id: str
    role: str
    topology_version: int
    master_addr: str
    master_port: int
    restart_count: int
    restarts_max: int
    checkpoint: CheckpointRef | None


def base_env(inherited: Mapping[str, str], *, nproc_per_node: int) -> tuple[dict[str, str], str]:
    """What the workers take over from the launcher's environment, and a notice for the person (empty: nothing to say).

    As torchrun: with several workers on a node, OMP_NUM_THREADS is 1 when the user did not set it.
    """
    env = {name: value for name, value in inherited.items() if name not in _STALE}
    # What python -u does for a spawned worker under torchrun: the last words of a dying rank reach its log.
    env.setdefault("PYTHONUNBUFFERED", "1")
    env.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    if nproc_per_node > 1 and "OMP_NUM_THREADS" not in env:
        env["OMP_NUM_THREADS"] = "1"
        return env, (
            f"OMP_NUM_THREADS was not set; each of the {nproc_per_node} workers gets 1, so that they do not crowd "
            "the machine. Set it yourself to tune."
        )
    return env, ""


def worker_env(base: Mapping[str, str], place: WorkerPlace, generation: Generation) -> dict[str, str]:
    """The complete environment of one worker.

    Raises:
        NoDevice: with virtual_local_rank, when there is no device for it.
    """
    env = {**base, **generation_env(base, place, generation)}
    if generation.checkpoint is not None:
        env["PHALANX_CHECKPOINT_STEP"] = str(generation.checkpoint.step)
        env["PHALANX_CHECKPOINT_PATH"] = path_of(generation.checkpoint, place.rank)
        if data_path := data_path_of(generation.checkpoint, place.rank):
            env[DATA_PATH_NAME] = data_path
    return env


def generation_env(base: Mapping[str, str], place: WorkerPlace, generation: Generation) -> dict[str, str]:
    """What a generation sets on top of `base`; a rank that restarts in place takes it over as it is.

    Raises:
        NoDevice: with virtual_local_rank, when there is no device for it.
    """
    env: dict[str, str] = {}
    env.update(
        {
            "RANK": str(place.rank),
            "LOCAL_RANK": str(place.local_rank),
            "WORLD_SIZE": str(place.world_size),
            "LOCAL_WORLD_SIZE": str(place.nproc),
            "GROUP_RANK": str(place.node_rank),
            "GROUP_WORLD_SIZE": str(place.nnodes),
            "ROLE_RANK": str(place.rank),
            "ROLE_WORLD_SIZE": str(place.world_size),
            "ROLE_NAME": generation.role,
            "MASTER_ADDR": generation.master_addr,
            "MASTER_PORT": str(generation.master_port),
            "TORCHELASTIC_RESTART_COUNT": str(generation.restart_count),
            "TORCHELASTIC_MAX_RESTARTS": str(generation.restarts_max),
            "TORCHELASTIC_RUN_ID": generation.job_id,
            # The store is rank 0's own: every topology_version has a fresh one, and a leftover rank finds nobody.
            "TORCHELASTIC_USE_AGENT_STORE": "False",
            "PHALANX_JOB_ID": generation.job_id,
            "PHALANX_TOPOLOGY_VERSION": str(generation.topology_version),
        }
    )
    if place.virtual_local_rank:
        env["LOCAL_RANK"] = "0"
        env["CUDA_VISIBLE_DEVICES"] = _own_device(base, place.local_rank)
    return env


@cache
def generation_names() -> frozenset[str]:
    """Names of all variables that a generation may set, but for the checkpoint's."""
    place = WorkerPlace(rank=0, local_rank=0, world_size=1, nproc=1, node_rank=0, nnodes=1, virtual_local_rank=True)
    generation = Generation(
        job_id="", role="", topology_version=1, master_addr="", master_port=1, restart_count=0, restarts_max=0,
        checkpoint=None,
    )  # fmt: skip
    return frozenset(generation_env({}, place, generation))


def _own_device(base: Mapping[str, str], local_rank: int) -> str:
    visible = base.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return str(local_rank)
    devices = visible.split(",")
    if local_rank >= len(devices):
        raise NoDevice(f"--virtual-local-rank: CUDA_VISIBLE_DEVICES={visible} has none for local rank {local_rank}")
    return devices[local_rank].strip()


def worker_args(args: tuple[str, ...], local_rank: int) -> tuple[str, ...]:
    """The script's arguments with torchrun's local rank macro replaced."""
    return tuple(arg.replace(LOCAL_RANK_MACRO, str(local_rank)) for arg in args)
