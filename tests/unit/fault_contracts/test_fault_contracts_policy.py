"""A policy that contradicts itself is refused with the names of the fields."""

from typing import Any

import pytest
from pydantic import ValidationError

from fault_contracts.agent import JobSpec
from fault_contracts.policy import CausePolicy, RecoveryPolicy


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"backoff": {"first_s": 400}}, "first_s 400 is above max_s 300"),
        (
            {"causes": [{"level": "job", "level_max": "process", "cause": "hang"}]},
            "level job is above level_max process",
        ),
        ({"causes": [{"restarts_max": 3}]}, "needs attribution, cause or both"),
        ({"elastic": {"nnodes_min": 4, "nnodes_allowed": [2, 4]}}, "below nnodes_min 4"),
        ({"job_restarts_max": 1}, "needs process_restarts_before_job"),
        ({"window_s": 0}, "window_s is 0"),
        ({"fault_deadline_s": 0}, "fault_deadline_s is 0"),
        ({"window_s": 86_400_000}, "less than or equal to 2592000"),
    ],
)
def test_contradictions_are_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        RecoveryPolicy.model_validate(fields)


def test_a_policy_travels_with_the_job() -> None:
    policy = RecoveryPolicy(restarts_max=5, causes=(CausePolicy(cause="gpu_*", restarts_max=2),))
    spec = JobSpec(nnodes=2, nproc_per_node=1, policy=policy)
    assert JobSpec.model_validate_json(spec.model_dump_json()) == spec


def test_an_older_agent_brings_none() -> None:
    assert JobSpec.model_validate({"nnodes": 1, "nproc_per_node": 1}).policy is None
