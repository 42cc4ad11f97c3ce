"""A worker's environment: torchrun's names with torchrun's meaning."""

import ast
import importlib.util
from pathlib import Path

import pytest

from fault_contracts.commands import CheckpointRef
from node_agent.domain.worker_env import Generation, NoDevice, WorkerPlace, base_env, worker_args, worker_env

PLACE = WorkerPlace(rank=5, local_rank=1, world_size=8, nproc=4, node_rank=1, nnodes=2)


def generation(checkpoint: CheckpointRef | None = None) -> Generation:
    return Generation(
        job_id="job",
        role="trainer",
        topology_version=3,
        master_addr="10.0.0.1",
        master_port=4242,
        restart_count=2,
        restarts_max=9,
        checkpoint=checkpoint,
    )


def test_ranks_and_sizes_as_torchrun_gives_them() -> None:
    env = worker_env({"HOME": "/h"}, PLACE, generation())
    assert env["HOME"] == "/h"
    wanted = {
        "RANK": "5",
        "LOCAL_RANK": "1",
        "WORLD_SIZE": "8",
        "LOCAL_WORLD_SIZE": "4",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "ROLE_RANK": "5",
        "ROLE_WORLD_SIZE": "8",
        "ROLE_NAME": "trainer",
        "MASTER_ADDR": "10.0.0.1",
        "MASTER_PORT": "4242",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_MAX_RESTARTS": "9",
        "TORCHELASTIC_RUN_ID": "job",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "PHALANX_JOB_ID": "job",
        "PHALANX_TOPOLOGY_VERSION": "3",
    }
    assert {name: env[name] for name in wanted} == wanted


def test_no_name_that_the_installed_torchrun_sets_is_missing() -> None:
    spec = importlib.util.find_spec("torch.distributed.elastic.agent.server.local_elastic_agent")
    if spec is None or spec.origin is None:
        pytest.skip("torch is not installed")
    names: set[str] = set()
    for node in ast.walk(ast.parse(Path(spec.origin).read_text())):
        if isinstance(node, ast.Dict):
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
            if "RANK" in keys:
                names.update(keys)
    assert {"RANK", "TORCHELASTIC_RUN_ID"} <= names, "torchrun's dictionary was not found; the test needs a new way"
    base, _ = base_env({}, nproc_per_node=2)
    assert names <= set(worker_env(base, PLACE, generation()))


def test_a_checkpoint_is_named_only_when_there_is_one() -> None:
    inherited = {"PHALANX_CHECKPOINT_STEP": "99", "PHALANX_CHECKPOINT_PATH": "/old"}
    base, _ = base_env(inherited, nproc_per_node=1)
    assert "PHALANX_CHECKPOINT_STEP" not in worker_env(base, PLACE, generation())
    env = worker_env(base, PLACE, generation(CheckpointRef(step=7, path="/new")))
    assert (env["PHALANX_CHECKPOINT_STEP"], env["PHALANX_CHECKPOINT_PATH"]) == ("7", "/new")


def test_omp_threads_are_one_only_for_several_workers_and_only_when_unset() -> None:
    env, notice = base_env({}, nproc_per_node=4)
    assert env["OMP_NUM_THREADS"] == "1"
    assert "OMP_NUM_THREADS" in notice
    assert "OMP_NUM_THREADS" not in base_env({}, nproc_per_node=1)[0]
    env, notice = base_env({"OMP_NUM_THREADS": "6"}, nproc_per_node=4)
    assert (env["OMP_NUM_THREADS"], notice) == ("6", "")


def test_an_error_file_of_somebody_else_is_not_handed_on() -> None:
    assert "TORCHELASTIC_ERROR_FILE" not in base_env({"TORCHELASTIC_ERROR_FILE": "/x"}, nproc_per_node=1)[0]


def test_torchruns_local_rank_macro_in_arguments() -> None:
    assert worker_args(("--rank", "${local_rank}", "x${local_rank}y"), 3) == ("--rank", "3", "x3y")


def test_a_virtual_local_rank_sees_its_own_device_as_0() -> None:
    place = WorkerPlace(rank=5, local_rank=1, world_size=8, nproc=4, node_rank=1, nnodes=2, virtual_local_rank=True)
    env = worker_env({"CUDA_VISIBLE_DEVICES": "4,6"}, place, generation())
    assert (env["LOCAL_RANK"], env["CUDA_VISIBLE_DEVICES"], env["RANK"]) == ("0", "6", "5")
    assert worker_env({}, place, generation())["CUDA_VISIBLE_DEVICES"] == "1"
    with pytest.raises(NoDevice, match="none for local rank 1"):
        worker_env({"CUDA_VISIBLE_DEVICES": "4"}, place, generation())
