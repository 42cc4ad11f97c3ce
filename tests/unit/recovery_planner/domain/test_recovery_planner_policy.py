"""A limit of zero would be a gang that never waits, or for ever."""

from dataclasses import fields

import pytest

from recovery_planner.domain.policy import MAY_BE_ZERO, Policy


@pytest.mark.parametrize("name", [field.name for field in fields(Policy)])
@pytest.mark.parametrize("value", [0, -1])
def test_a_limit_must_be_above_zero(name: str, value: int) -> None:
    if name in MAY_BE_ZERO and value == 0:
        assert getattr(Policy(**{name: value}), name) == 0, "it can be turned off"
        return
    with pytest.raises(ValueError, match=name):
        Policy(**{name: value})
