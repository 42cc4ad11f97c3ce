"""Restarts are counted in a window that slides."""

from datetime import UTC, datetime, timedelta

from fault_contracts.agent import JobSpec
from recovery_planner.domain.budget import budget_at

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
SPEC = JobSpec(nnodes=1, nproc_per_node=1, restarts_max=2, window_s=60)


def ago(seconds: float) -> datetime:
    return NOON - timedelta(seconds=seconds)


def test_nothing_used() -> None:
    assert budget_at(SPEC, (), NOON).left == 2


def test_all_used() -> None:
    budget = budget_at(SPEC, (ago(59.9), ago(1)), NOON)
    assert budget.left == 0
    assert "2 of 2 restarts in the last 60 s" in budget.sentence


def test_a_restart_as_old_as_the_window_has_left_it() -> None:
    budget = budget_at(SPEC, (ago(60), ago(59.9)), NOON)
    assert budget.left == 1
    assert budget.restarts == (ago(59.9),)


def test_no_restart_allowed() -> None:
    assert budget_at(SPEC.model_copy(update={"restarts_max": 0}), (), NOON).left == 0


def test_a_smaller_budget_than_was_used_is_not_negative() -> None:
    assert budget_at(SPEC, (ago(3), ago(2), ago(1)), NOON).left == 0


def test_the_clusters_ceiling_comes_before_the_jobs_own_word() -> None:
    budget = budget_at(SPEC, (ago(1),), NOON, ceiling=1)
    assert budget.left == 0
    assert "1 of 1 restarts" in budget.sentence
    assert "the cluster allows no more" in budget.sentence


def test_a_ceiling_that_is_higher_changes_nothing() -> None:
    assert budget_at(SPEC, (ago(1),), NOON, ceiling=10) == budget_at(SPEC, (ago(1),), NOON)
