"""Every rank gets back the path it told, whatever the order, as long as the rules fit; else a folder that holds it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fault_contracts.checkpoints import CheckpointRef, path_of
from recovery_planner.domain.checkpoint_paths import (
    GROUPS_MAX,
    PathGroup,
    as_rank_paths,
    in_folder_only,
    note_path,
    size_of,
)


def learnt(paths: dict[int, str]) -> tuple[PathGroup, ...]:
    groups: tuple[PathGroup, ...] = ()
    for rank, path in paths.items():
        groups = note_path(groups, rank, path)
    return groups


def told(groups: tuple[PathGroup, ...], rank: int) -> str:
    return path_of(CheckpointRef(step=1, path="?", paths=as_rank_paths(groups)), rank)


@pytest.mark.parametrize(
    "rule",
    [
        "/ckpt/10/rank{rank}.pt",
        "/ckpt/10/rank_{rank:05d}/model.pt",
        "/c/mp_rank_{rank:02d}_of_16/rank{rank:02d}.pt",
        "s3://bucket/10/{rank}",
    ],
)
def test_a_thousand_ranks_take_one_rule(rule: str) -> None:
    paths = {rank: rule.format(rank=rank) for rank in (*range(50, 1_000), *range(50))}
    groups = learnt(paths)
    assert len(groups) <= 3, "numbers that mean something else in the path may cost a rule or two"
    assert size_of(groups) < 1_000
    assert {rank: told(groups, rank) for rank in paths} == paths


def test_one_path_for_all_needs_no_rules() -> None:
    groups = learnt(dict.fromkeys(range(64), "/ckpt/10"))
    assert as_rank_paths(groups) == ()
    assert len(groups) == 1


def test_pipeline_stages_with_paths_of_their_own() -> None:
    paths = {rank: f"/ckpt/10/stage-{'abcd'[rank // 4]}" for rank in range(16)}
    assert {rank: told(learnt(paths), rank) for rank in paths} == paths


def test_more_rules_than_there_is_room_for_leave_a_common_folder() -> None:
    paths = {rank: f"/ckpt/10/{'x' * (rank + 1)}/part" for rank in range(40)}
    groups = learnt(paths)
    assert len(groups) == GROUPS_MAX
    assert in_folder_only(groups) == 40 - GROUPS_MAX + 1
    for rank, path in paths.items():
        assert path.startswith(told(groups, rank))
    assert told(groups, 39) == "/ckpt/10"


def test_the_first_path_of_a_rank_counts_and_no_path_is_no_rule() -> None:
    groups = learnt({0: "/a"})
    assert note_path(groups, 0, "/b") is groups
    assert note_path(groups, 1, "") is groups


names = st.text("ab01/_", min_size=1, max_size=8)


@given(
    st.dictionaries(st.integers(0, 120), st.one_of(names, st.just("/c/{rank}/x"), st.just("r{rank:03d}")), max_size=14)
)
def test_whatever_paths_are_told_each_rank_gets_its_own(templates: dict[int, str]) -> None:
    paths = {rank: template.format(rank=rank) for rank, template in templates.items()}
    groups = learnt(paths)
    for rank, path in paths.items():
        if len(groups) > 1 or len(groups[0].parts) > 1:
            assert told(groups, rank) == path
        else:
            assert groups[0].parts == (path,)
