"""The table: every pair either has its move or refuses it."""

import pytest

from recovery_planner.domain.gang import Phase
from recovery_planner.domain.gang_machine import TABLE, IllegalMove, Trigger, target


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("trigger", Trigger)
def test_every_pair(phase: Phase, trigger: Trigger) -> None:
    if (phase, trigger) in TABLE:
        assert target(phase, trigger) is TABLE[phase, trigger]
    else:
        with pytest.raises(IllegalMove, match=f"{phase}.*{trigger}"):
            target(phase, trigger)


def test_nothing_starts_but_from_a_stopped_or_new_gang() -> None:
    assert {before for (before, _), after in TABLE.items() if after is Phase.STARTING} == {
        Phase.FORMING,
        Phase.DECIDING,
        Phase.WAITING,
    }


def test_every_phase_but_the_last_can_end() -> None:
    assert {before for (before, trigger) in TABLE if trigger is Trigger.ENDED} == set(Phase) - {Phase.ENDED}
