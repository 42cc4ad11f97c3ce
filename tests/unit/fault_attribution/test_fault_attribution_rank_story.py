"""What the rank was doing that did not come, and who only noticed."""

from __future__ import annotations

import pytest

from fault_attribution.derive.rank_story import rank_story
from fault_attribution.derive.victims import victims
from fault_attribution.evidence_line import Source
from fault_attribution.finding import Finding, Role


def found(kind: str, rank: int | None, role: Role = Role.CONTEXT, number: int = 1, **rest: str) -> Finding:
    return Finding(
        finding_id=f"{kind}/{rank}/{number}/{rest.get('node', '')}", kind=kind, role=role, rank=rank, number=number,
        source=Source.WORKER_STDERR, node=rest.get("node", "n1"), text=kind, stream=rest.get("stream", f"r{rank}"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("activity", "story"),
    [
        ("loading_data", "rank_in_data"),
        ("preprocessing", "rank_in_preprocessing"),
        ("evaluating", "rank_in_evaluation"),
        ("saving_checkpoint", "rank_in_checkpoint"),
        ("downloading", "rank_in_download"),
        ("rank_skips", "rank_skipped"),
        ("step_done", "rank_trained_on"),
    ],
)
def test_the_last_activity_of_a_missing_rank_is_its_story(activity: str, story: str) -> None:
    rows = [found("missing_rank", 1), found("epoch_done", 1), found(activity, 1, Role.PROGRESS, 5)]
    assert [each.kind for each in rank_story(rows)] == [story]


def test_an_activity_that_it_had_left_behind_is_not_told() -> None:
    rows = [found("missing_rank", 1), found("evaluating", 1, number=2), found("step_done", 1, number=9)]
    assert [each.kind for each in rank_story(rows)] == ["rank_trained_on"]


def test_what_ranks_do_that_waited_is_no_story() -> None:
    rows = [found("missing_rank", 1), found("evaluating", 0)]
    assert list(rank_story(rows)) == []


def test_a_clean_exit_and_a_failure_of_its_own_are_told_apart() -> None:
    left = [found("missing_rank", 1), found("exit_clean", 1)]
    died = [found("missing_rank", 1), found("cuda_oom", 1, Role.CAUSE)]
    assert [each.kind for each in rank_story(left)] == ["rank_left_early"]
    assert [each.kind for each in rank_story(died)] == ["rank_died_first"]


def test_the_rank_with_a_reason_of_its_own_failed_first_whatever_the_clocks_say() -> None:
    rows = [
        found("nccl_timeout", 0, Role.SYMPTOM),
        found("peer_closed", 2, Role.VICTIM),
        found("cuda_oom", 1, Role.CAUSE),
    ]
    assert [(each.kind, each.rank) for each in victims(rows)] == [("first_failing_rank", 1)]


def test_only_victims_is_said_when_nobody_has_a_reason() -> None:
    rows = [found("nccl_timeout", 0, Role.SYMPTOM), found("nccl_watchdog_abort", 0, Role.SYMPTOM)]
    assert [each.kind for each in victims(rows)] == ["victims_only"]


def test_links_of_three_nodes_are_the_fabrics_of_two_are_not() -> None:
    rows = [found("nic_link_down", None, Role.SYMPTOM, node=f"n{number}") for number in range(3)]
    assert [each.kind for each in victims(rows)] == ["many_nodes_lost_link"]
    assert list(victims(rows[:2])) == []
