"""A step counts on a node when every local rank that is required confirmed it; required is learned, or by writers."""

import pytest

from node_agent.domain.checkpoint_history import (
    KINDS_MAX,
    STEP_MAX,
    STEPS_MAX,
    Claim,
    LocalHistory,
    claim_problem,
    confirmed,
    is_known,
    newest_counting,
)

LOCAL = range(4, 8)


def claim(
    rank: int, step: int, *, kind: str = "model", writers: int | None = None, version: int = 1, path: str = "/c"
) -> Claim:
    return Claim(
        rank=rank, step=step, path=path, kind=kind, writers=writers, topology_version=version, source="worker_link"
    )


def after(*claims: Claim) -> LocalHistory:
    history = LocalHistory()
    for one in claims:
        history = confirmed(history, one)
    return history


def newest(history: LocalHistory, kind: str = "model") -> int | None:
    found = newest_counting(history, kind, local_ranks=LOCAL, world_size=8)
    return None if found is None else found.step


def test_ranks_that_never_write_are_not_waited_for() -> None:
    history = after(claim(4, 10), claim(5, 10), claim(4, 20))
    assert newest(history) == 10
    assert newest(confirmed(history, claim(5, 20))) == 20


def test_kinds_have_their_own_writers() -> None:
    history = after(claim(4, 10), claim(5, 10), claim(4, 10, kind="data"), claim(4, 20), claim(4, 20, kind="data"))
    assert (newest(history), newest(history, "data"), newest(history, "other")) == (10, 20, None)


def test_writers_of_the_whole_job_are_all_local_ranks_and_one_writer_is_one() -> None:
    assert newest(after(claim(4, 10, writers=8))) is None
    assert newest(after(*(claim(rank, 10, writers=8) for rank in LOCAL))) == 10
    assert newest(after(claim(4, 10), claim(5, 10), claim(4, 20, writers=1))) == 20


def test_a_new_generation_begins_anew_with_its_steps() -> None:
    assert newest(after(claim(4, 100), claim(4, 60, version=2))) == 60


def test_a_repeat_is_known_and_a_path_that_comes_later_is_news() -> None:
    history = after(claim(4, 10, path=""))
    assert is_known(history, claim(4, 10, path=""))
    assert not is_known(history, claim(4, 10))
    assert not is_known(history, claim(4, 10, version=2, path=""))
    assert is_known(confirmed(history, claim(4, 10)), claim(4, 10, path="/elsewhere"))


def test_the_history_is_bounded() -> None:
    history = after(*(claim(4, step) for step in range(200)))
    assert [step.step for step in history.kinds["model"].steps] == list(range(200 - STEPS_MAX, 200))


@pytest.mark.parametrize(
    ("bad", "word"),
    [
        (claim(3, 10), "not on this node"),
        (claim(4, -1), "step -1"),
        (claim(4, STEP_MAX + 1), "2^53"),
        (claim(4, 10, path="/" * 5_000), "path"),
        (claim(4, 10, path="a\0b"), "zero byte"),
        (claim(4, 10, path="/c/\udcff"), "Unicode"),
        (claim(4, 10, kind=""), "kind"),
        (claim(4, 10, kind="k" * 65), "kind"),
        (claim(4, 10, kind="one-more"), "one more"),
        (claim(4, 10, writers=0), "writers"),
    ],
)
def test_what_cannot_be_right_is_said(bad: Claim, word: str) -> None:
    kinds = ["model", *(f"kind-{number}" for number in range(1, KINDS_MAX))]
    assert word in claim_problem(bad, local_ranks=LOCAL, kinds=kinds)
    assert claim_problem(claim(4, 10), local_ranks=LOCAL, kinds=kinds) == ""
