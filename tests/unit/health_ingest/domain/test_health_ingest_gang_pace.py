"""Windows of several nodes become one comparison; who is silent is unknown, who does other work is not compared."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence

import pytest

from fault_contracts.step_times import RankStepTimes, StepTimesReported
from health_ingest.domain.gang_pace import GangPace
from health_ingest.domain.straggler import SlowKind, StragglerPolicy
from training_topology.identity import Rank

NPROC = 2


def report(
    node: int,
    window: int,
    busy_s: Sequence[float | None],
    *,
    whole_s: Sequence[float] | None = None,
    peers: Sequence[str] = ("",) * 8,
    instance: str = "life",
    version: int = 1,
    world_size: int = 4,
    spread_s: float = 0.0,
) -> StepTimesReported:
    ranks = [
        RankStepTimes(
            rank=node * len(busy_s) + local_rank,
            local_rank=local_rank,
            count=20,
            median_s=0.1 if whole_s is None else whole_s[local_rank],
            spread_s=spread_s,
            busy_count=0 if busy is None else 20,
            busy_median_s=busy,
            busy_spread_s=None if busy is None else spread_s,
            peers=peers[local_rank],
        )
        for local_rank, busy in enumerate(busy_s)
    ]
    return StepTimesReported(
        node_id=f"n{node}",
        instance_id=f"n{node}/{instance}",
        job_id="job",
        topology_version=version,
        world_size=world_size,
        window=window,
        first_step=window * 20,
        last_step=window * 20 + 19,
        duration_s=2,
        ranks=tuple(ranks),
        reported_at="2030-01-01T00:00:00Z",
    )


def new_gang(slow: Mapping[Rank, str] | None = None) -> GangPace:
    return GangPace(topology_version=1, world_size=4, policy=StragglerPolicy(), slow=slow)


def told(gang: GangPace, reports: Sequence[StepTimesReported]) -> list[tuple[str, int, SlowKind]]:
    found = [each for one in reports for each in gang.take(one)]
    return [(each.node_id, each.finding.rank, each.finding.kind) for each in found]


def test_a_slow_rank_among_two_nodes_is_found_in_its_fifth_window() -> None:
    gang = new_gang()
    for window in range(4):
        assert told(gang, [report(0, window, (0.05, 0.05)), report(1, window, (0.05, 0.06))]) == []
    assert told(gang, [report(0, 4, (0.05, 0.05))]) == []
    assert told(gang, [report(1, 4, (0.05, 0.06))]) == [("n1", 3, SlowKind.SLOW)]
    assert gang.slow() == {3: "n1"}


@pytest.mark.parametrize("nodes", [2, 3])
def test_more_than_a_quarter_of_the_gang_that_is_slow_from_the_start_is_its_nature(nodes: int) -> None:
    gang = GangPace(topology_version=1, world_size=2 * nodes, policy=StragglerPolicy())
    windows = range(10)
    reports = [
        report(n, w, (0.05, 0.05) if n else (0.07, 0.07), world_size=2 * nodes) for w in windows for n in range(nodes)
    ]
    assert told(gang, reports) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_slow_node_is_found_whatever_the_order_of_the_reports(seed: int) -> None:
    rng = random.Random(seed)
    gang = GangPace(topology_version=1, world_size=10, policy=StragglerPolicy())
    found = []
    for window in range(6):
        round_ = [report(n, window, (0.07, 0.07) if n == 2 else (0.05, 0.051), world_size=10) for n in range(5)]
        rng.shuffle(round_)
        found += told(gang, round_)
    assert sorted(found) == [("n2", 4, SlowKind.SLOW), ("n2", 5, SlowKind.SLOW)]


def test_one_node_is_enough() -> None:
    gang = GangPace(topology_version=1, world_size=4, policy=StragglerPolicy())
    reports = [report(0, window, (0.05, 0.05, 0.06, 0.05)) for window in range(5)]
    assert told(gang, reports) == [("n0", 2, SlowKind.SLOW)]


def test_copies_and_older_windows_change_nothing() -> None:
    gang = GangPace(topology_version=1, world_size=4, policy=StragglerPolicy())
    slow = [report(0, window, (0.05, 0.05, 0.06, 0.05)) for window in range(4)]
    assert told(gang, [*slow, *slow, slow[0]]) == []
    assert told(gang, [report(0, 4, (0.05, 0.05, 0.06, 0.05))]) == [("n0", 2, SlowKind.SLOW)]


def test_a_silent_node_is_left_out_after_three_windows_of_the_other() -> None:
    gang = GangPace(topology_version=1, world_size=6, policy=StragglerPolicy())
    found = []
    for window in range(30):
        reports = [report(0, window, (0.05, 0.05, 0.06), world_size=6)]
        if window < 3:
            reports.append(report(1, window, (0.05, 0.05, 0.05), world_size=6))
        found += [(window, each) for each in told(gang, reports)]
    # Three rounds with both nodes, then one in three windows.
    assert found == [(8, ("n0", 2, SlowKind.SLOW))]


def test_nodes_with_windows_of_different_length_are_compared_all_the_same() -> None:
    gang = new_gang()
    found = []
    for window in range(12):
        found += told(gang, [report(0, window, (0.05, 0.05))])
        if window % 2:
            found += told(gang, [report(1, window // 2, (0.05, 0.06))])
    assert found == [("n1", 3, SlowKind.SLOW)]


def test_whole_steps_are_compared_where_no_rank_tells_its_own_work() -> None:
    gang = new_gang()
    found = []
    for window in range(5):
        for node in range(2):
            each = report(node, window, (None, None), whole_s=(0.1, 0.1 if node == 0 else 0.13))
            found += gang.take(each)
    (one,) = found
    assert one.finding.rank == 3
    assert "0.13 s a step, waits included, 1.30 times the 0.1 s of its peers" in one.finding.sentence


def test_own_work_is_never_compared_with_whole_steps() -> None:
    gang = new_gang()
    reports = [report(node, window, (None, 0.05)) for window in range(20) for node in range(2)]
    assert told(gang, reports) == []


def test_stages_of_a_pipeline_are_compared_within_themselves() -> None:
    gang = GangPace(topology_version=1, world_size=8, policy=StragglerPolicy())
    stages = ("pp=0", "pp=1") * 4
    times = (0.05, 0.09) * 3 + (0.05, 0.11)
    found = told(gang, [report(0, window, times, peers=stages, world_size=8) for window in range(10)])
    assert found == [("n0", 7, SlowKind.SLOW)]


def test_what_an_earlier_life_told_is_taken_back_by_good_windows() -> None:
    gang = new_gang({Rank(3): "n1"})
    found = []
    for window in range(5):
        found += told(gang, [report(0, window, (0.05, 0.05)), report(1, window, (0.05, 0.05))])
    assert found == [("n1", 3, SlowKind.RECOVERED)]
    assert gang.slow() == {}


def test_a_rank_that_the_gang_does_not_have_is_not_compared() -> None:
    gang = new_gang()
    assert told(gang, [report(7, window, (0.05, 0.9)) for window in range(20)]) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_healthy_gang_raises_no_alarm_and_a_straggler_in_it_is_found(seed: int) -> None:
    """Sixteen ranks on four nodes: noise of each rank, a pace that drifts, evaluations in which all are slower, nodes
    that cut windows at different steps, and reports that are lost.
    """
    rng = random.Random(seed)
    gang = GangPace(topology_version=1, world_size=16, policy=StragglerPolicy())
    usual = [rng.uniform(0.98, 1.02) for _ in range(16)]
    numbers = [0] * 4

    def windows(count: int, slow: int | None) -> list[tuple[str, int, SlowKind]]:
        found = []
        for turn in range(count):
            pace_s = 0.05 * (1 + turn / count) * (3.0 if turn % 17 == 0 else 1.0)
            for node in rng.sample(range(4), 4):
                if rng.random() < 0.05:
                    continue
                times = []
                for local_rank in range(4):
                    rank = node * 4 + local_rank
                    scale = pace_s * usual[rank] * (1.2 if rank == slow else 1.0) * rng.uniform(1, 1.03)
                    times.append(statistics.median(scale * rng.lognormvariate(0, 0.1) for _ in range(20)))
                numbers[node] += 1
                found += told(gang, [report(node, numbers[node], times, world_size=16, spread_s=pace_s / 10)])
        return found

    assert windows(400, None) == []
    assert [(rank, kind) for _, rank, kind in windows(40, 9)][:1] == [(9, SlowKind.SLOW)]
