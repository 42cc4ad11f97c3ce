"""The node's step is the smallest that all of its ranks finished."""

from node_agent.domain.progress import Advance, Progress
from training_topology.identity import LocalRank


def run(expected: int, *reports: tuple[int, int]) -> tuple[Progress, list[Advance]]:
    progress, advances = Progress(expected=expected), []
    for local_rank, step in reports:
        progress, advance = progress.after_step(LocalRank(local_rank), step)
        if advance is not None:
            advances.append(advance)
    return progress, advances


def test_the_first_advance_waits_for_every_rank() -> None:
    progress, advances = run(3, (0, 5), (0, 6), (1, 5))
    assert advances == []
    assert progress.step is None
    progress, advances = run(3, (0, 5), (0, 6), (1, 5), (2, 5))
    assert advances == [Advance(step=5, first=True)]


def test_later_advances_follow_the_slowest_rank_and_are_not_first() -> None:
    _, advances = run(2, (0, 1), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3))
    assert advances == [Advance(step=1, first=True), Advance(step=2, first=False), Advance(step=3, first=False)]


def test_counting_anew_is_believed_but_is_no_advance() -> None:
    progress, advances = run(1, (0, 9), (0, 1), (0, 10))
    assert advances == [Advance(step=9, first=True), Advance(step=10, first=False)] or progress.step == 10
    assert progress.step_of(LocalRank(0)) == 10


def test_a_rank_that_is_not_here_changes_nothing() -> None:
    progress, advances = run(1, (1, 4), (-1, 4))
    assert (progress.step, advances) == (None, [])
    assert progress.step_of(LocalRank(1)) is None
