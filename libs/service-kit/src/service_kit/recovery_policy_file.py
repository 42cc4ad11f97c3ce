"""A job's recovery policy from YAML: in our words, or as HyperPod writes them."""

from __future__ import annotations

from pathlib import Path

from fault_contracts.policy import RecoveryPolicy
from service_kit.model_file import read_model
from service_kit.yaml_fields import PolicyRefused

ALIASES = {
    "job_max_retry_count": "restarts_max",
    "restart_policy.eval_period_seconds": "window_s",
    "restart_policy.num_restart_before_full_job_restart": "process_restarts_before_job",
    "restart_policy.max_full_job_restarts": "job_restarts_max",
    "eval_period_seconds": "window_s",
    "num_restart_before_full_job_restart": "process_restarts_before_job",
    "max_full_job_restarts": "job_restarts_max",
    "fault_deadline_seconds": "fault_deadline_s",
    "startup_deadline_seconds": "start_deadline_s",
    "elastic_policy.min_replicas": "elastic.nnodes_min",
    "elastic_policy.replica_increment_step": "elastic.replica_nodes",
    "elastic_policy.replica_discrete_values": "elastic.nnodes_allowed",
    "elastic_policy.faulty_scale_down_timeout_in_seconds": "elastic.wait_s",
    "restart_policy.scale_up_snooze_time_in_seconds": "elastic.snooze_s",
}
"""HyperPod's names (HyperPodPyTorchJob, spec.runPolicy and spec.elasticPolicy), after camel case was undone. Its
windows tumble; here they slide."""

NOT_ACTED_ON = ("elastic", "repeat_offender")
"""Fields of the contract that no planner reads yet: whoever writes them must not think that they help."""


def read_recovery_policy(path: Path) -> RecoveryPolicy:
    """A file with the policy itself, or with it under `recovery:`, or HyperPod's `spec: runPolicy:`.

    Raises:
        PolicyRefused: with file, line and reason.
    """
    policy = read_model(path, RecoveryPolicy, top=("spec", "runPolicy", "recovery"), aliases=ALIASES)
    asked = [name for name in NOT_ACTED_ON if getattr(policy, name) != RecoveryPolicy.model_fields[name].get_default()]
    if asked:
        raise PolicyRefused(f"{path}: {', '.join(asked)}: this version does not act on it; leave it out")
    return policy
