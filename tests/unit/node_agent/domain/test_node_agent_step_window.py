"""Windows of step times: when they are full, where they end, what they keep, and who is missing."""

from __future__ import annotations

import math

import pytest

from node_agent.domain.step_window import SAMPLES_MAX, ClosedWindow, StepWindows, WindowPolicy, peers_of
from training_topology.identity import LocalRank

POLICY = WindowPolicy()


class Node:
    """Ranks that finish steps on one clock."""

    def __init__(self, nproc: int = 2) -> None:
        self.windows = StepWindows(opened_s=0.0, policy=POLICY)
        self.nproc = nproc
        self.now_s = 0.0
        self.closed: list[ClosedWindow] = []

    def step(self, number: int, took_s: float, *busy_s: float | None, ranks: tuple[int, ...] | None = None) -> None:
        self.now_s += took_s
        for rank in range(self.nproc) if ranks is None else ranks:
            busy = busy_s[rank] if busy_s else None
            self.note(rank, number, busy)

    def note(self, rank: int, number: int, busy_s: float | None = None) -> None:
        closed = self.windows.note(LocalRank(rank), number, at_s=self.now_s, busy_s=busy_s, now_s=self.now_s)
        if closed is not None:
            self.closed.append(closed)


def test_fast_steps_make_one_window_in_two_seconds() -> None:
    node = Node()
    for number in range(1_001):
        node.step(number, 1 / 128)
    assert [(window.number, window.first_step, window.last_step) for window in node.closed] == [
        (0, 0, 260),
        (1, 261, 520),
        (2, 521, 780),
    ]
    assert node.closed[1].duration_s == 260 / 128
    assert node.closed[1].ranks[LocalRank(1)].whole.count == 260 / 2, "past 256 times every other one is kept"
    assert node.closed[1].ranks[LocalRank(1)].whole.median_s == 1 / 128


def test_slow_steps_make_a_window_of_ten() -> None:
    node = Node()
    for number in range(1, 42):
        node.step(number, 5.0)
    assert [window.last_step for window in node.closed] == [20, 30, 40]


def test_windows_of_two_nodes_end_at_the_same_steps_whenever_they_began() -> None:
    ends = []
    for phase_s in (0.0, 0.07, 1.3):
        node = Node()
        node.windows = StepWindows(opened_s=-phase_s, policy=POLICY)
        for number in range(400):
            node.step(number, 0.05)
        ends.append([window.last_step for window in node.closed])
    assert all(end % 10 == 0 for window in ends for end in window)


def test_own_work_is_kept_beside_the_whole_step() -> None:
    node = Node()
    for number in range(41):
        node.step(number, 0.1, 0.05, 0.08 if number % 2 else None)
    (window,) = node.closed[:1]
    first, second = window.ranks[LocalRank(0)], window.ranks[LocalRank(1)]
    assert (first.whole.median_s, second.whole.median_s) == (pytest.approx(0.1), pytest.approx(0.1))
    assert first.busy is not None
    assert (first.busy.count, first.busy.median_s) == (20, 0.05)
    assert second.busy is not None, "half of the steps are enough"
    assert second.busy.median_s == 0.08


def test_own_work_told_too_rarely_is_unknown() -> None:
    node = Node(1)
    for number in range(41):
        node.step(number, 0.1, 0.05 if number % 5 == 0 else None)
    assert node.closed[0].ranks[LocalRank(0)].busy is None


def test_a_script_that_reports_every_fiftieth_step_gives_times_of_one() -> None:
    node = Node()
    for number in range(1, 5_002, 50):
        node.step(number, 5.0)
    assert node.closed[0].ranks[LocalRank(0)].whole.median_s == pytest.approx(0.1)
    assert len(node.closed) > 5


def test_ranks_that_wait_for_nobody_get_windows_when_the_slowest_has_enough() -> None:
    node = Node()
    for number in range(1, 1_000):
        node.step(number, 0.0625, ranks=(0,))
        if number % 3 == 0:
            node.note(1, number // 3)
    window = node.closed[0]
    assert window.ranks[LocalRank(0)].whole.median_s == 0.0625
    assert window.ranks[LocalRank(1)].whole.median_s == 0.1875
    assert window.duration_s < 10


def test_a_rank_with_hardly_a_step_holds_up_the_others_for_a_while_only() -> None:
    node = Node()
    for number in range(1, 1_000):
        node.step(number, 0.0625, ranks=(0,))
        if number % 200 == 0:
            node.note(1, number // 200)
    assert {tuple(window.ranks) for window in node.closed} == {(LocalRank(0),)}
    assert max(window.duration_s for window in node.closed) == 30.0


def test_a_rank_that_falls_silent_is_missing_and_holds_up_the_others_only_once() -> None:
    node = Node()
    for number in range(60):
        node.step(number, 0.125)
    before = len(node.closed)
    for number in range(60, 1_000):
        node.step(number, 0.125, ranks=(0,))
    later = node.closed[before:]
    assert LocalRank(1) not in later[1].ranks
    assert LocalRank(1) not in later[-1].ranks
    assert later[-1].duration_s == 2.5


def test_memory_is_bounded_and_spread_over_the_window() -> None:
    windows = StepWindows(opened_s=0.0, policy=POLICY)
    for number in range(10_001):
        # The window does not close: its clock stands.
        windows.note(LocalRank(0), number, at_s=number**2 / 2, busy_s=float(number), now_s=0.0)
    windows.note(LocalRank(0), 10_010, at_s=1e9, busy_s=None, now_s=100.0)
    kept = windows._ranks[LocalRank(0)]
    assert kept.whole.seen == 0, "the last step closed it"
    samples = StepWindows(opened_s=0.0, policy=POLICY)
    for number in range(10_001):
        samples.note(LocalRank(0), number, at_s=float(number), busy_s=float(number), now_s=0.0)
    busy = samples._ranks[LocalRank(0)].busy
    assert busy.seen == 10_000
    assert len(busy.times_s) <= SAMPLES_MAX
    assert busy.times_s == [float(1 + index) for index in range(0, 10_000, busy.stride)]


@pytest.mark.parametrize("wrong", [-1.0, math.nan, math.inf])
def test_what_is_no_time_is_counted_and_left_out(wrong: float) -> None:
    windows = StepWindows(opened_s=0.0, policy=POLICY)
    windows.note(LocalRank(0), 1, at_s=1.0, busy_s=None, now_s=1.0)
    windows.note(LocalRank(0), 2, at_s=2.0, busy_s=wrong, now_s=2.0)
    assert windows.unusable == 1
    windows.note(LocalRank(0), 3, at_s=wrong, busy_s=None, now_s=3.0)
    assert windows.unusable == 2
    windows.note(LocalRank(0), 3, at_s=4.0, busy_s=None, now_s=4.0)
    assert windows.unusable == 3, "the same step again"


def test_stages_of_a_pipeline_have_peers_of_their_own() -> None:
    assert peers_of({"dp": "0", "tp": "1"}) == ""
    assert peers_of({"dp": "0", "pp": "1"}) == "pp=1"
    assert peers_of({"pp": "1", "peers": "encoder"}) == "peers=encoder"
