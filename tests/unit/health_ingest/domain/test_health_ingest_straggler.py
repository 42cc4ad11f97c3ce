"""The slow rank is found, and jobs whose ranks merely differ are left alone. Real step times where they are at hand."""

from __future__ import annotations

import csv
import random
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from health_ingest.domain.straggler import (
    Pace,
    SlowKind,
    SlowRule,
    StragglerFinding,
    StragglerPolicy,
    StragglerState,
    step,
)
from training_topology.identity import Rank

POLICY = StragglerPolicy()


def summarise(times_s: list[float]) -> Pace:
    """As the agent does."""
    median_s = statistics.median(times_s)
    spread_s = 1.4826 * statistics.median([abs(time_s - median_s) for time_s in times_s])
    return Pace(count=len(times_s), median_s=median_s, spread_s=spread_s)


def flat(median_s: float, *, count: int = 20, spread_s: float = 0.0) -> Pace:
    return Pace(count=count, median_s=median_s, spread_s=spread_s)


def told(windows: Iterable[Mapping[int, Pace]], policy: StragglerPolicy = POLICY) -> list[list[StragglerFinding]]:
    """What is found in each window."""
    state, found = StragglerState(), []
    for window in windows:
        result = step(state, {Rank(rank): times for rank, times in window.items()}, policy=policy)
        state = result.state
        found.append(list(result.findings))
    return found


def slow_ranks(windows: Iterable[Mapping[int, Pace]]) -> set[int]:
    return {finding.rank for findings in told(windows) for finding in findings if finding.kind is SlowKind.SLOW}


def gang(*ratios: float) -> dict[int, Pace]:
    return {rank: flat(0.05 * ratio) for rank, ratio in enumerate(ratios)}


def test_ten_percent_for_five_windows_is_slow() -> None:
    found = told([gang(1, 1, 1.101, 1)] * 5)
    assert found[:4] == [[], [], [], []]
    (finding,) = found[4]
    assert (finding.kind, finding.rank, finding.rule_id) == (SlowKind.SLOW, 2, SlowRule.STANDS_OUT)
    assert finding.ratio == pytest.approx(1.101)
    assert finding.rank_s == pytest.approx(0.05505)
    assert finding.peers_s == pytest.approx(0.05)
    assert finding.slow_windows == 5
    assert finding.sentence == (
        "rank 2 is slow: 0.05505 s of own work a step, 1.10 times the 0.05 s of its peers, in 5 of 5 windows"
    )


def test_less_than_ten_percent_is_not() -> None:
    assert slow_ranks([gang(1, 1, 1.09, 1)] * 50) == set()


def test_a_difference_that_delays_nobody_is_none() -> None:
    tiny = {rank: flat(0.002 if rank == 2 else 0.0015) for rank in range(4)}
    assert slow_ranks([tiny] * 50) == set()


@pytest.mark.parametrize("wrong", [{"slow_ratio": 1.0}, {"windows": 0}, {"windows": 9}])
def test_a_policy_that_cannot_work_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        StragglerPolicy(**wrong)


def test_it_is_told_once() -> None:
    assert sum(map(len, told([gang(1, 1, 1.3, 1)] * 40))) == 1


def test_one_good_window_among_them_hides_nothing_and_two_do() -> None:
    slow, fine = gang(1, 1, 1.3, 1), gang(1, 1, 1, 1)
    assert slow_ranks([slow, slow, slow, fine, slow, slow]) == {2}
    assert slow_ranks([slow, slow, slow, fine, fine] * 6) == set()


def test_recovery_is_told_and_may_be_followed_by_another_finding() -> None:
    slow, fine = gang(1, 1, 1.3, 1), gang(1, 1, 1, 1)
    found = [finding for findings in told([slow] * 5 + [fine] * 10 + [slow] * 10) for finding in findings]
    assert [(finding.kind, finding.rank) for finding in found] == [
        (SlowKind.SLOW, 2),
        (SlowKind.RECOVERED, 2),
        (SlowKind.SLOW, 2),
    ]


def test_two_ranks_are_enough_and_one_has_no_peers() -> None:
    assert slow_ranks([gang(1, 1.2)] * 5) == {1}
    assert slow_ranks([gang(1)] * 50) == set()


def test_both_slow_ranks_of_a_node_are_found() -> None:
    assert slow_ranks([gang(1, 1, 1, 1, 1, 1, 1.2, 1.2)] * 5) == {6, 7}


def test_ranks_that_always_differ_are_no_stragglers() -> None:
    assert slow_ranks([gang(0.82, 0.84, 0.90, 0.96, 1, 1, 1.01, 1.02, 1.03, 1.12)] * 100) == set()


def test_half_of_the_gang_that_is_slow_from_the_start_is_its_nature_but_slowing_down_is_not() -> None:
    assert slow_ranks([gang(1, 1, 1, 1, 1.3, 1.3, 1.3, 1.3)] * 50) == set()
    usual = [gang(1, 1, 1, 1, 1, 1, 1, 1)] * 6
    assert slow_ranks([*usual, *[gang(1, 1, 1, 1, 1, 1.3, 1.3, 1.3)] * 5]) == {5, 6, 7}


def test_a_long_time_of_slowness_does_not_become_the_usual() -> None:
    usual, slow = gang(1, 1, 1, 1, 1, 1, 1, 1), gang(1, 1, 1, 1, 1, 1.3, 1.3, 1.3)
    found = told([*[usual] * 6, *[slow] * 40, *[usual] * 6, *[slow] * 5])
    assert [finding.kind for findings in found for finding in findings if finding.rank == 5] == [
        SlowKind.SLOW,
        SlowKind.RECOVERED,
        SlowKind.SLOW,
    ]


def test_the_peers_of_a_rank_are_the_others() -> None:
    state = step(StragglerState(), {Rank(rank): flat(s) for rank, s in enumerate((1.0, 2.0, 4.0))}, policy=POLICY).state
    assert state.ranks[Rank(0)].baseline == (pytest.approx(1 / 3),)


def test_a_fast_rank_that_becomes_ordinary_is_not_slow() -> None:
    assert slow_ranks([gang(0.7, 1, 1.1, 1)] * 10 + [gang(1, 1, 1, 1)] * 30) == set()


def test_a_difference_within_the_ranks_own_noise_is_none() -> None:
    noisy = gang(1, 1) | {1: flat(0.06, count=10, spread_s=0.03)}
    assert slow_ranks([noisy] * 20) == set()
    assert slow_ranks([gang(1, 1) | {1: flat(0.06, count=10, spread_s=0.003)}] * 20) == {1}


def test_an_absent_rank_is_unknown_neither_slow_nor_well() -> None:
    slow = gang(1, 1, 1.3, 1)
    without = {rank: times for rank, times in slow.items() if rank != 2}
    found = told([slow, slow, without, without, without, slow, slow, slow])
    assert [len(findings) for findings in found] == [0, 0, 0, 0, 0, 0, 0, 1]


def test_no_work_at_all_compares_with_nothing() -> None:
    assert told([{0: flat(0.0), 1: flat(0.0)}] * 5) == [[]] * 5


def test_memory_of_a_rank_is_bounded() -> None:
    state = StragglerState()
    for _ in range(200):
        state = step(state, {Rank(0): flat(1.0), Rank(1): flat(1.01)}, policy=POLICY).state
    pace = state.ranks[Rank(0)]
    assert (len(pace.recent), len(pace.baseline)) == (POLICY.windows_of, POLICY.baseline_windows)


@pytest.mark.parametrize("noise", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_noise_alone_raises_no_alarm_and_hides_no_straggler(noise: float, ranks: int) -> None:
    """Log-normal steps, 20 a window, 200 windows; then one rank gets slower by 20 % and the noise."""
    chance = random.Random(f"{noise} {ranks}")

    def window(slow: float) -> dict[int, Pace]:
        scale = [1.0] * (ranks - 1) + [slow]
        return {
            rank: summarise([0.05 * scale[rank] * chance.lognormvariate(0.0, noise) for _ in range(20)])
            for rank in range(ranks)
        }

    healthy = [window(1.0) for _ in range(200)]
    assert slow_ranks(healthy) == set()
    assert slow_ranks([*healthy[-10:], *(window(1.2 + noise) for _ in range(40))]) == {ranks - 1}


# ------------------------------------------------------------------------------------ step times of real jobs (Alibaba)

FOUND = [above / "shared" / "data" / "alibaba_minibatch" for above in Path(__file__).resolve().parents]
TRACES = next((folder for folder in FOUND if folder.is_dir()), FOUND[0])
needs_traces = pytest.mark.skipif(
    not TRACES.is_dir(), reason="shared/data/alibaba_minibatch (CC-BY-4.0, not copied into this repository) is absent"
)


def trace(job: int) -> list[tuple[int, dict[int, float]]]:
    """Rows of one job: time, and each worker's latest mini-batch time. One row is taken every 10 units of time."""
    rows: dict[int, dict[int, float]] = defaultdict(dict)
    with (TRACES / f"job_{job}_norm.csv").open() as file:
        for row in csv.DictReader(file):
            rows[int(row["time"])][int(row["worker"])] = float(row["batch_time_norm"])
    return sorted(rows.items())


def found_in(job: int, *, rows_a_window: int, first: int = 0) -> list[tuple[int, StragglerFinding]]:
    """Findings with the time of their window, for one way to cut the trace into windows."""
    rows = trace(job)[first:]
    cut = [rows[index : index + rows_a_window] for index in range(0, len(rows), rows_a_window)]
    windows = []
    for part in cut:
        times: dict[int, list[float]] = defaultdict(list)
        for _, row in part:
            for worker, value in row.items():
                times[worker].append(value)
        windows.append({worker: summarise(values) for worker, values in times.items()})
    return [(part[-1][0], finding) for part, findings in zip(cut, told(windows), strict=True) for finding in findings]


@needs_traces
@pytest.mark.parametrize("first", [0, 1])
def test_the_marked_straggler_of_job_1_is_found_and_nobody_else(first: int) -> None:
    """Its README: worker 6, from the middle of the training. In the rows it is slow from time 1811 to 1941."""
    found = found_in(1, rows_a_window=2, first=first)
    assert [(finding.rank, finding.kind) for _, finding in found] == [(6, SlowKind.SLOW), (6, SlowKind.RECOVERED)]
    assert 1811 <= found[0][0] <= 1911
    assert found[0][1].ratio > 1.15


@needs_traces
@pytest.mark.parametrize("rows_a_window", [1, 2, 3, 5, 10])
def test_job_2_whose_workers_differ_all_the_time_raises_no_alarm(rows_a_window: int) -> None:
    assert found_in(2, rows_a_window=rows_a_window) == []


@needs_traces
def test_job_3_has_several() -> None:
    """README: there could be multiple stragglers. Workers 0 and 1 lag from the start; at the end 6 to 9 slow down."""
    found = found_in(3, rows_a_window=2)
    slow = [(time, finding.rank) for time, finding in found if finding.kind is SlowKind.SLOW]
    assert {rank for time, rank in slow if time < 2_000} == {0, 1}
    assert {rank for time, rank in slow if time > 2_000} == {6, 7, 8, 9}


@needs_traces
def test_job_4_has_half_of_its_workers_slowing_down_together() -> None:
    """README: multiple stragglers, and the times fluctuate. Its workers are of two speeds from the start, which raises
    no alarm; the slow half slows down further around time 1000, and does.
    """
    found = found_in(4, rows_a_window=2)
    assert [finding for time, finding in found if time < 1_000] == []
    assert {finding.rank for _, finding in found if finding.kind is SlowKind.SLOW} == {0, 5, 6, 7, 8}
    assert {finding.rule_id for _, finding in found} == {SlowRule.BECAME_SLOWER}


@needs_traces
def test_longer_windows_than_the_lapse_miss_it() -> None:
    """A limit of the method, kept visible: five windows must fit into the time for which the rank is slow."""
    assert found_in(1, rows_a_window=5) == []


def test_a_policy_with_more_windows_waits_longer() -> None:
    patient = replace(POLICY, windows=8, windows_of=8)
    found = told([gang(1, 1, 1.3, 1)] * 8, patient)
    assert [len(findings) for findings in found] == [0] * 7 + [1]
