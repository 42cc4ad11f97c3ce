"""What is told of findings, how often, and what is left out when there is too much."""

from __future__ import annotations

from datetime import UTC, datetime

from node_agent.domain.finding_fold import GROWTH_MIN, PER_NODE_MAX, PER_STREAM_MAX, FindingFold, Found
from training_topology.identity import Rank

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def found(name: str = "oom", role: str = "cause", text: str = "a line") -> Found:
    return Found(kind=name, role=role, signature_id=f"test.{name}", text=text, captures={})


def told(fold: FindingFold, *, everything: bool = False) -> list[tuple[str, int, int]]:
    return [(each.found.kind, each.rank, each.count) for each in fold.due(everything=everything)]


def test_a_finding_is_told_once_and_again_when_there_are_many_more() -> None:
    fold = FindingFold()
    assert fold.add(found(), Rank(1), "stderr", NOON)
    assert told(fold) == [("oom", 1, 1)]
    assert told(fold) == []
    news = [fold.add(found(), Rank(1), "stderr", NOON) for _ in range(GROWTH_MIN - 1)]
    assert news == [False, False, True]
    assert told(fold) == [("oom", 1, GROWTH_MIN)]


def test_a_failure_tells_every_new_word_and_progress_with_its_last_line_only() -> None:
    fold = FindingFold()
    assert not fold.add(found("step", "progress", "step 1"), Rank(0), "stdout", NOON)
    fold.add(found("step", "progress", "step 2"), Rank(0), "stdout", NOON)
    assert told(fold) == []
    (last,) = fold.due(everything=True)
    assert (last.found.text, last.count) == ("step 2", 2)
    assert told(fold, everything=True) == []


def test_the_same_on_another_rank_or_stream_is_another_finding_with_its_place_in_the_stream() -> None:
    fold = FindingFold()
    fold.add(found("a"), Rank(0), "stderr", NOON)
    fold.add(found("b"), Rank(0), "stderr", NOON)
    fold.add(found("a"), Rank(0), "stdout", NOON)
    fold.add(found("a"), Rank(1), "stderr", NOON)
    assert [(each.rank, each.stream, each.ordinal) for each in fold.due(everything=False)] == [
        (0, "stderr", 0), (0, "stderr", 1), (0, "stdout", 0), (1, "stderr", 0),
    ]  # fmt: skip


def test_too_many_different_ones_are_counted() -> None:
    fold = FindingFold()
    for number in range(PER_STREAM_MAX + 7):
        fold.add(found(f"kind_{number}"), Rank(0), "stderr", NOON)
    assert fold.dropped == 7
    for rank in range(1, 40):
        for number in range(PER_STREAM_MAX):
            fold.add(found(f"kind_{number}"), Rank(rank), "stderr", NOON)
    assert len(told(fold)) == PER_NODE_MAX
