"""Which rung is tried: as the verdict asks, higher after a failure on probation, replaced after many stories."""

from datetime import UTC, datetime, timedelta

import pytest

from fault_contracts.cluster_policy import LadderPolicy, ProbationPolicy
from fault_contracts.faults import Action
from fault_contracts.remediation import Rung
from recovery_planner.domain.node_ladder import above, first_rung, probation_s, rung_of, score_at

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ALL = LadderPolicy()


def begin(
    asked: Rung, ladder: LadderPolicy = ALL, *, before: Rung | None = None, strikes: float = 1.0, known: bool = True
) -> Rung | None:
    return first_rung(asked, ladder, before=before, strikes=strikes, device_known=known)[0]


@pytest.mark.parametrize("rung", list(Rung))
def test_a_story_begins_where_the_verdict_asks(rung: Rung) -> None:
    assert begin(rung) is rung


def test_a_fault_on_probation_costs_the_next_rung() -> None:
    assert begin(Rung.RESET_GPU, before=Rung.RESET_GPU) is Rung.REBOOT_NODE
    assert begin(Rung.RESET_GPU, before=Rung.REBOOT_NODE) is Rung.REPLACE_NODE


def test_a_graver_wish_than_the_next_rung_counts() -> None:
    assert begin(Rung.REPLACE_NODE, before=Rung.RESET_GPU) is Rung.REPLACE_NODE


def test_after_the_last_rung_there_is_none() -> None:
    rung, why = first_rung(Rung.RESET_GPU, ALL, before=Rung.REPLACE_NODE, strikes=1.0, device_known=True)
    assert rung is None
    assert "on probation after replace_node" in why


def test_enough_stories_replace_the_node() -> None:
    assert begin(Rung.RESET_GPU, strikes=2.9) is Rung.RESET_GPU
    assert begin(Rung.RESET_GPU, strikes=3.0) is Rung.REPLACE_NODE


def test_a_reset_needs_to_know_the_gpu() -> None:
    assert begin(Rung.RESET_GPU, known=False) is Rung.REBOOT_NODE


def test_a_rung_that_the_cluster_does_not_have_is_stepped_over() -> None:
    ladder = LadderPolicy(rungs=(Rung.RESET_GPU, Rung.REPLACE_NODE))
    assert begin(Rung.REBOOT_NODE, ladder) is Rung.REPLACE_NODE
    assert begin(Rung.REBOOT_NODE, LadderPolicy(rungs=(Rung.RESET_GPU,))) is None


def test_what_asks_nothing_of_the_node_has_no_rung() -> None:
    assert rung_of(Action.RESTART_JOB) is None
    assert rung_of(Action.DONT_RETRY_NOTIFY_USER) is None
    assert above(Rung.REPLACE_NODE, list(Rung)) is None


def test_stories_fade() -> None:
    policy = ProbationPolicy(half_life_s=100.0)
    assert score_at(2.0, NOON, NOON + timedelta(seconds=100), policy) == pytest.approx(1.0)
    assert score_at(2.0, None, NOON, policy) == 0.0


def test_probation_grows_with_the_past_up_to_a_limit() -> None:
    policy = ProbationPolicy(length_s=100.0, factor_max=3.0)
    assert [probation_s(strikes, policy) for strikes in (0.2, 1.0, 2.5, 9.0)] == [100.0, 100.0, 250.0, 300.0]
