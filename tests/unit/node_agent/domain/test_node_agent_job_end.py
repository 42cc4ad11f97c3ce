"""Exit codes are a promise to scripts around `phalanx run`."""

import pytest

from fault_contracts.recovery import JobOutcome
from node_agent.domain.job_end import exit_code_of, headline


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (JobOutcome.SUCCEEDED, 0),
        (JobOutcome.FAILED_USER, 1),
        (JobOutcome.FAILED_BUDGET, 1),
        (JobOutcome.FAILED_NO_CAPACITY, 75),
        (JobOutcome.CANCELLED, 130),
    ],
)
def test_each_outcome_has_its_code(outcome: JobOutcome, code: int) -> None:
    assert int(exit_code_of(outcome)) == code


def test_every_outcome_has_its_own_headline_and_the_users_fault_is_named() -> None:
    assert len({headline(outcome) for outcome in JobOutcome}) == len(JobOutcome)
    assert "training script" in headline(JobOutcome.FAILED_USER)
