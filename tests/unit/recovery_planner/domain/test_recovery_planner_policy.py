"""A limit of zero would be a gang that never waits, or for ever."""

from dataclasses import fields

import pytest

from recovery_planner.domain.policy import Policy


@pytest.mark.parametrize("name", [field.name for field in fields(Policy)])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_must_be_above_zero(name: str, value: int) -> None:
    if name == "in_process_attempts_max" and value == 0:
        assert Policy(**{name: value}).in_process_attempts_max == 0, "restarts in place can be turned off"
        return
    with pytest.raises(ValueError, match=name):
        Policy(**{name: value})
