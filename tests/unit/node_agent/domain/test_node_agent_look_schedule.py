"""The grid of looks, and what failed ones mean."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fault_contracts.payload import Health
from node_agent.domain.look_schedule import Watch, WatchState, backoff_s, next_look_s

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("now_s", "wanted_s"), [(100.0, 110.0), (103.0, 110.0), (109.9, 110.0), (110.0, 120.0), (137.0, 140.0)]
)
def test_looks_stay_on_their_grid_and_skip_what_they_missed(now_s: float, wanted_s: float) -> None:
    assert next_look_s(100.0, 10.0, now_s) == wanted_s


def test_misses_are_unknown_and_from_the_third_on_bad() -> None:
    watch = Watch(name="nvml").answered(now_s=1.0, took_s=0.2)
    healths = []
    for _ in range(4):
        watch = watch.missed("it hangs")
        healths.append(watch.observation(AT).health)
    assert healths == [Health.UNKNOWN, Health.UNKNOWN, Health.BAD, Health.BAD]
    assert watch.observation(AT).check == "nvml_collector"
    assert watch.observation(AT).detail == "it hangs (4 in a row)"
    assert (watch.looks, watch.looked_s) == (1, 1.0)
    well = watch.answered(now_s=9.0, took_s=0.1)
    assert (well.observation(AT).health, well.state, well.looks) == (Health.OK, WatchState.WORKING, 2)


def test_backoff_doubles_to_a_limit() -> None:
    assert [backoff_s(failures) for failures in (1, 2, 3, 7, 1_000)] == [1, 2, 4, 60, 60]
