"""The cluster's policy from YAML, as the planner reads it."""

from __future__ import annotations

from pathlib import Path

from fault_contracts.cluster_policy import ClusterPolicy
from service_kit.model_file import read_model
from service_kit.yaml_fields import PolicyRefused


def read_cluster_policy(path: Path) -> ClusterPolicy:
    """A file with the policy itself, or with it under `cluster:`.

    Raises:
        PolicyRefused: with file, line and reason; also when the list of a static pool is not there.
    """
    policy = read_model(path, ClusterPolicy, top=("cluster",))
    if policy.pool.file and not (path.parent / policy.pool.file).is_file():
        raise PolicyRefused(f"{path}: pool.file {policy.pool.file}: there is no such file beside the policy")
    return policy
