"""Steps of workers become one report of step times a window; slow ranks of this node are shown."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from agent_fakes import Node, start, stop

from fault_contracts.envelope import Envelope, seal
from fault_contracts.health import Component, ConditionCleared, ConditionRaised, Tier
from fault_contracts.payload import Payload
from fault_contracts.step_times import StepTimesReported
from node_agent.application.tell_stragglers import StragglerTeller
from service_kit.errors import BusUnavailable
from service_kit.ports import Delivery
from training_topology.identity import LocalRank
from worker_link.messages import RankLabels, Step

pytestmark = pytest.mark.asyncio


class PlainBus:
    """As much of a bus as a report needs."""

    def __init__(self) -> None:
        self.sent: list[StepTimesReported] = []
        self.away = False

    async def publish(self, envelope: Envelope[Any], *, epoch: int | None = None) -> int:
        if self.away:
            raise BusUnavailable("away")
        self.sent.append(envelope.data)
        return 0


async def run_steps(node: Node, first: int, last: int, *, took_s: float = 0.125) -> None:
    """Both ranks finish steps; rank 1 does more of its own work."""
    for number in range(first, last + 1):
        node.clock.at_s += took_s
        for handle in sorted(node.processes.alive.values(), key=lambda each: each.rank):
            busy_s = 0.05 + 0.03 * handle.local_rank
            node.relay.on_step(handle, Step(step=number, at_monotonic_s=node.clock.at_s, busy_s=busy_s))
        await asyncio.sleep(0)


async def test_a_window_is_one_report(tmp_path: Path) -> None:
    node, bus = Node(tmp_path, node_id="n1"), PlainBus()
    node.relay.step_times.bus = bus
    await node.obey(start())
    node.relay.on_labels(next(iter(node.processes.alive.values())), RankLabels(labels={"pp": "1"}))
    await run_steps(node, 100, 141)
    assert [(report.window, report.first_step, report.last_step) for report in bus.sent] == [
        (0, 100, 120),
        (1, 121, 140),
    ]
    report = bus.sent[0]
    assert (report.node_id, report.job_id, report.topology_version, report.world_size) == ("n1", "job", 1, 4)
    assert [(times.rank, times.local_rank, times.peers) for times in report.ranks] == [(2, 0, "pp=1"), (3, 1, "")]
    assert [times.median_s for times in report.ranks] == [0.125, 0.125]
    assert [times.busy_median_s for times in report.ranks] == [0.05, 0.08]
    assert report.ranks[1].busy_count == 20


async def test_a_generation_has_its_own_windows(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), PlainBus()
    node.relay.step_times.bus = bus
    await node.obey(start())
    await run_steps(node, 0, 39)
    await node.obey(stop())
    await node.obey(start(2, attempt=1))
    node.clock.at_s += 100.0
    await run_steps(node, 30, 51)
    assert [(report.topology_version, report.window, report.last_step) for report in bus.sent] == [
        (1, 0, 20),
        (2, 0, 50),
    ]
    assert bus.sent[1].ranks[0].median_s == 0.125, "the pause between generations is no step"


async def test_steps_that_a_log_rule_reads_make_windows_of_whole_steps(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), PlainBus()
    node.relay.step_times.bus = bus
    await node.obey(start())
    for number in range(41):
        node.clock.at_s += 0.125
        for local_rank in (0, 1):
            node.relay.finish_step(LocalRank(local_rank), number, topology_version=1)
    await asyncio.sleep(0)
    assert [(each.median_s, each.busy_median_s) for each in bus.sent[0].ranks] == [(0.125, None), (0.125, None)]


async def test_a_window_that_cannot_be_sent_is_not_kept(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), PlainBus()
    await node.obey(start())
    await run_steps(node, 0, 21)
    node.relay.step_times.bus = bus
    bus.away = True
    await run_steps(node, 22, 42)
    bus.away = False
    await run_steps(node, 43, 61)
    assert [(report.window, report.last_step) for report in bus.sent] == [(2, 60)]


def raised(job_id: str = "job", check: str = "straggler", condition_id: str = "c1") -> ConditionRaised:
    return ConditionRaised(
        condition_id=condition_id,
        node_id="n0",
        component=Component.PROCESS,
        check=check,
        tier=Tier.PROBLEM,
        reason="rank 2 is slow: 1.20 times",
        job_id=job_id,
        rank=2,
        raised_at="2030-01-01T00:00:00Z",
    )


def cleared(condition_id: str = "c1") -> ConditionCleared:
    return ConditionCleared(
        condition_id=condition_id,
        node_id="n0",
        check="straggler",
        reason="rank 2 is slow no more",
        cleared_at="2030-01-01T00:00:00Z",
    )


async def test_the_person_is_told_of_slow_ranks_of_this_job_only(tmp_path: Path) -> None:
    node = Node(tmp_path)
    teller = StragglerTeller(node, job_id="job")

    async def hear(payload: Payload) -> None:
        envelope = seal(payload, source="/health-ingest", cause_id="x", time=node.clock.now())
        await teller.heard(Delivery(envelope=envelope, subject="", stream_sequence=None, deliveries=1))

    await hear(raised(job_id="another", condition_id="c2"))
    await hear(cleared("c2"))
    await hear(raised(check="disk_space", condition_id="c3"))
    assert node.said == []
    await hear(raised())
    await hear(raised())
    await hear(cleared())
    await hear(cleared())
    assert node.said == ["rank 2 is slow: 1.20 times", "rank 2 is slow no more"]
