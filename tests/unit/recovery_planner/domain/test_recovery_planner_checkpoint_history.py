"""The greatest step that every required rank confirmed in every part wins, and nothing pushes it out."""

import random
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fault_contracts.agent import CheckpointReported
from fault_contracts.checkpoints import CheckpointRef, data_path_of, path_of
from recovery_planner.adapters.gang_codec import decode_history, encode_history
from recovery_planner.domain.checkpoint import choose
from recovery_planner.domain.checkpoint_history import (
    KINDS_MAX,
    STEP_MAX,
    CheckpointHistory,
    Confirmation,
    KindHistory,
    record,
    refusal,
)
from recovery_planner.domain.gang import GenerationStart

EMPTY = CheckpointHistory()
FRESH = (GenerationStart(topology_version=1, step=-1),)


def report(
    rank: int, step: int, *, kind: str = "model", version: int = 1, writers: int | None = None, path: str = "/c/{step}"
) -> CheckpointReported:
    return CheckpointReported(
        node_id="n",
        job_id="j",
        topology_version=version,
        rank=rank,
        step=step,
        path=path.format(step=step, rank=rank),
        kind=kind,
        writers=writers,
        saved_at=datetime(2030, 1, 1, tzinfo=UTC),
    )


def history_of(reports: Iterable[CheckpointReported]) -> CheckpointHistory:
    history = EMPTY
    for one in reports:
        history = record(history, one)
    return history


def test_a_job_that_reports_model_and_data_needs_both_at_the_same_step() -> None:
    model = [report(rank, step) for step in (10, 20) for rank in (0, 1)]
    data = [report(rank, 10, kind="data", path="/d/{step}/{rank}") for rank in (0, 1)]
    chosen = choose(history_of([*model, *data, report(0, 20, kind="data")]), FRESH)
    assert chosen.step == 10
    assert chosen.ref is not None
    assert (path_of(chosen.ref, 1), data_path_of(chosen.ref, 0), data_path_of(chosen.ref, 1)) == (
        "/c/10",
        "/d/10/0",
        "/d/10/1",
    )
    assert "the 2 of its data" in chosen.sentence


def test_data_alone_is_nothing_to_resume_from() -> None:
    chosen = choose(history_of([report(0, 10, kind="data")]), FRESH)
    assert chosen.step is None
    assert "in model and data" in chosen.sentence


def test_halves_of_two_generations_are_not_one_checkpoint() -> None:
    half = [report(0, 20, version=1), report(0, 20, version=2, kind="data")]
    assert choose(history_of(half), FRESH).step is None


def test_ranks_that_write_one_kind_only_are_not_required_for_the_other() -> None:
    model = [report(rank, 10, path="/c/{step}/stage{rank}") for rank in range(4)]
    chosen = choose(history_of([*model, report(0, 10, kind="data")]), FRESH)
    assert chosen.step == 10
    assert chosen.ref is not None
    assert [path_of(chosen.ref, rank) for rank in range(4)] == [f"/c/10/stage{rank}" for rank in range(4)]


def test_what_lay_in_the_folder_counts_only_without_a_report() -> None:
    found = CheckpointRef(step=500, path="/old/500")
    assert choose(EMPTY, FRESH, found=found).path == "/old/500"
    assert choose(history_of([report(0, 10)]), FRESH, found=found).step == 10


def test_a_path_that_comes_later_completes_a_confirmation_without_one() -> None:
    chosen = choose(history_of([report(0, 10, path=""), report(0, 10)]), FRESH)
    assert chosen.path == "/c/10"


@pytest.mark.parametrize(
    ("one", "rule"),
    [
        (report(8, 10), "checkpoint.unknown_rank"),
        (report(0, 10, writers=9), "checkpoint.too_many_writers"),
        (report(0, STEP_MAX + 1), "checkpoint.absurd_step"),
        (report(0, 10, kind="one-too-many"), "checkpoint.too_many_kinds"),
    ],
)
def test_what_cannot_be_right_is_refused_with_a_reason(one: CheckpointReported, rule: str) -> None:
    history = history_of(report(0, 10, kind=f"kind-{number}") for number in range(KINDS_MAX))
    reason = refusal(history, one, world_size=8)
    assert reason is not None
    assert reason.rule_id == rule
    assert refusal(EMPTY, report(7, 10, writers=8), world_size=8) is None


def test_a_flood_of_steps_that_nobody_completes_pushes_no_whole_checkpoint_out() -> None:
    whole = [report(rank, 1_000, kind=kind) for rank in (0, 1) for kind in ("model", "data")]
    flood = [report(0, step, kind=kind) for step in range(2_000, 2_200) for kind in ("model", "data")]
    assert choose(history_of([*whole, *flood]), FRESH).step == 1_000


def test_a_new_generation_behind_many_old_steps_is_remembered() -> None:
    old = [report(0, step) for step in range(100, 200)]
    half = [report(rank, 10) for rank in (0, 1)]
    starts = (GenerationStart(topology_version=2, step=10),)
    history = history_of([*half, *old, *(report(rank, 20, version=2) for rank in (0, 1))])
    assert choose(history, starts).step == 20


def test_the_record_stays_below_what_a_message_carries() -> None:
    long = "/" + "x" * 4_000
    reports = [
        report(rank, step, kind=kind, path=f"{long}/{chr(97 + rank)}")
        for step in range(40)
        for kind in ("model", "data", "memory")
        for rank in range(12)
    ]
    history = history_of(reports)
    raw = encode_history(history)
    assert len(raw) < 900_000
    assert decode_history(raw) == history
    assert choose(history, FRESH).step == 39


def test_a_record_of_a_planner_that_knew_one_path_is_read_on() -> None:
    old = Confirmation(step=10, topology_version=1, ranks=((0, 0),), path="/c/10", path_rank=0)
    history = CheckpointHistory(kinds={"model": KindHistory(confirmations=(old,), ranks_ever=((0, 1),))})
    assert choose(record(history, report(1, 10)), FRESH).path == "/c/10"


confirmed = st.tuples(st.integers(0, 5), st.integers(0, 6), st.sampled_from(["model", "data", "memory"]))


@given(st.lists(confirmed, max_size=60), st.randoms(use_true_random=False))
def test_the_choice_is_the_greatest_step_of_all_required_ranks_in_any_order(
    said: list[tuple[int, int, str]], order: random.Random
) -> None:
    shuffled = list(said)
    order.shuffle(shuffled)
    chosen = choose(history_of(report(rank, step, kind=kind) for rank, step, kind in shuffled), FRESH)
    by_kind = {kind: [(rank, step) for rank, step, k in said if k == kind] for kind in ("model", "data", "memory")}

    def whole(kind: str, step: int) -> bool:
        ranks = {rank for rank, _ in by_kind[kind]}
        return bool(ranks) and ranks == {rank for rank, s in by_kind[kind] if s == step}

    steps = [
        step
        for step in range(7)
        if whole("memory", step) or (whole("model", step) and (not by_kind["data"] or whole("data", step)))
    ]
    assert chosen.step == max(steps, default=None)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400), st.integers(1, 3)), max_size=200))
def test_more_confirmations_never_cost_a_whole_checkpoint(said: list[tuple[int, int, int]]) -> None:
    history, best = EMPTY, -1
    for rank, step, version in sorted(said, key=lambda one: one[2]):
        history = record(history, report(rank, step, version=version, writers=4))
        now = choose(history, ()).step
        newer = [w for w in history.kinds["model"].confirmations if w.topology_version == version]
        if any(c.step <= best and c.topology_version > 1 for c in newer):
            # A later generation works behind the best: what it may overwrite need not stay.
            best = -1 if now is None else now
            continue
        assert (-1 if now is None else now) >= best
        best = max(best, -1 if now is None else now)
