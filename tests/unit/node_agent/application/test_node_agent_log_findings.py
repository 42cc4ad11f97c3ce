"""Lines of ranks become signals, faults, steps and checkpoints of the node: real rules, faked processes."""

import asyncio
from pathlib import Path
from typing import TypeVar

import pytest
from agent_fakes import T0, Node, start, stop
from log_rig import HANGING, JOB_START

from fault_contracts.agent import AgentPhase, CheckpointReported, StepReported, WorkerExited
from fault_contracts.health import Component, SignalObserved
from fault_contracts.payload import Health
from fault_contracts.rank_faults import RanksFaulted
from node_agent.adapters.log_engine import RuleMatcher
from node_agent.adapters.log_rules_yaml import parse_rules
from node_agent.application.feed_logs import LogFeed
from node_agent.application.log_signals import LogSignals
from node_agent.application.output_tap import OutputPlace
from node_agent.application.report_log_findings import LogFindingReports
from node_agent.application.watch_logs import WatchLogs
from node_agent.domain.log_rule import LogStream
from training_topology.identity import LocalRank, Rank
from worker_link.messages import Step

T = TypeVar("T")

pytestmark = pytest.mark.asyncio

HYPERPOD = Path(__file__).parents[4] / "examples/log_rules/hyperpod.yaml"
RULES = r"""
rules:
  - {name: nan, kind: metric, action: fault, mode: search, logPattern: 'loss=(\S+)', nonFinite: [nan]}
  - {name: slow, kind: metric, action: alert, mode: search, logPattern: 'rate=(\S+)', metricThreshold: 10, operator: lt}
  - {name: odd, kind: fault, action: observe, mode: search, logPattern: 'odd thing'}
  - {name: step, kind: progress, mode: search, logPattern: 'step (?P<step>\d+)'}
  - {name: save, kind: checkpoint, mode: search, logPattern: 'saved (?P<path>\S+) at (?P<step>\d+)'}
"""


class LoggedNode(Node):
    """A node with its log rules wired as in main."""

    def __init__(self, tmp_path: Path, rules: str = RULES) -> None:
        super().__init__(tmp_path)
        self.signals = LogSignals(self.life.identity, self.outgoing, self.clock, self)
        findings = LogFindingReports(self.life, self.faults, self.signals, self.relay)
        self.watch = WatchLogs(clock=self.clock, reports=findings, make_matcher=RuleMatcher)
        self.feed = LogFeed(self.watch, findings, self.clock)
        self.life.watches.append(self.feed)
        file = parse_rules(rules.encode(), "rules.yaml")
        assert (file.error, file.refused) == (None, ())
        self.watch.use(file)

    def print(self, line: str, *, rank: int = 0, version: int = 1, end: str = "\n") -> None:
        place = OutputPlace(topology_version=version, rank=Rank(rank), local_rank=LocalRank(rank))
        self.feed.take(place, LogStream.STDOUT, (line + end).encode())

    async def told(self, model: type[T]) -> list[T]:
        await self.faults.drain()
        return [report for report in await self.reports_from() if isinstance(report, model)]


async def test_a_fault_rule_condemns_its_rank_with_the_line_as_evidence(tmp_path: Path) -> None:
    node = LoggedNode(tmp_path)
    await node.obey(start())
    node.print("step 3 loss=0.5")
    node.print("step 4 loss=nan", rank=1)
    [fault] = await node.told(RanksFaulted)
    assert (fault.check, fault.rule_id, fault.suspects[0].rank) == ("log_rule", "LogSlow_nan", 1)
    assert "loss=nan" in fault.suspects[0].evidence
    assert fault.evidence_path
    assert "step 4 loss=nan" in node.evidence.saved[0][1]["excerpt.txt"]
    assert node.life.phase is AgentPhase.FAULTED


async def test_an_alert_is_a_signal_and_a_line_and_stops_nothing(tmp_path: Path) -> None:
    node = LoggedNode(tmp_path)
    await node.obey(start())
    node.print("rate=3.5", rank=1)
    [signal] = await node.told(SignalObserved)
    assert (signal.component, signal.check, signal.health) == (Component.LOG, "LogRule_slow", Health.BAD)
    assert (signal.rank, signal.component_id, signal.values["metric"]) == (1, "job/rank 1", 3.5)
    assert "LogSlow_slow" in signal.detail
    assert any("rank 1: LogSlow_slow" in line for line in node.said)
    assert node.life.phase is AgentPhase.RUNNING
    for _ in range(4):
        node.clock.at_s += 11.0
        node.print("rate=30", rank=1)
        node.signals.tick()
    samples = [s.health for s in await node.told(SignalObserved)]
    assert samples == [Health.BAD, Health.OK, Health.OK, Health.OK], "the same check, so that good clears bad"
    assert sum("LogHealthy_slow" in line for line in node.said) == 1


async def test_what_is_observed_is_stored_and_wakes_nobody(tmp_path: Path) -> None:
    node = LoggedNode(tmp_path)
    await node.obey(start())
    before = len(node.said)
    node.print("an odd thing")
    [signal] = await node.told(SignalObserved)
    assert (signal.health, signal.check) == (Health.UNKNOWN, "LogRule_odd")
    assert node.said[before:] == []


async def test_what_was_bad_is_over_when_the_ranks_are_started_anew(tmp_path: Path) -> None:
    node = LoggedNode(tmp_path)
    await node.obey(start())
    node.print("rate=3")
    await node.obey(stop())
    node.clock.at_s = 30.0
    await node.obey(start(2, attempt=1))
    last = (await node.told(SignalObserved))[-1]
    assert (last.health, "started anew" in last.detail) == (Health.OK, True)


async def test_a_leaving_agent_says_that_it_is_over_as_often_as_it_takes(tmp_path: Path) -> None:
    node = LoggedNode(tmp_path)
    await node.obey(start())
    node.print("rate=3")
    node.signals.close()
    assert [s.health for s in await node.told(SignalObserved)] == [Health.BAD, Health.OK, Health.OK, Health.OK]


async def test_progress_lines_are_steps_unless_the_script_tells_them_itself(tmp_path: Path) -> None:
    node = LoggedNode(tmp_path)
    await node.obey(start())
    node.print("step 7")
    node.print("step 7", rank=1)
    assert [(s.step, s.first) for s in await node.told(StepReported)] == [(7, True)]
    for handle in node.processes.alive.values():
        node.relay.on_step(handle, Step(step=8, at_monotonic_s=0.0))
    for rank in (0, 1):
        node.print("step 500", rank=rank)
    assert node.life.progress is not None
    assert node.life.progress.step == 8, "an evaluation's own count must not pass for training"


async def test_a_checkpoint_line_counts_also_while_the_ranks_are_being_stopped(tmp_path: Path) -> None:
    node = LoggedNode(tmp_path)
    await node.obey(start())
    node.print("saved /c/50 at 50", rank=1)
    node.life.phase = AgentPhase.STOPPING
    node.feed.on_stopping()
    node.print("saved /c/51 at 51", rank=1)
    node.print("loss=nan rate=1 odd thing")
    told = await node.told(CheckpointReported)
    assert [(c.rank, c.step, c.path, c.writers) for c in told] == [
        (1, 50, "/c/50", None),
        (1, 51, "/c/51", None),
    ]
    assert await node.told(RanksFaulted) == []
    assert await node.told(SignalObserved) == []


async def test_the_last_words_of_a_rank_are_judged_before_its_death(tmp_path: Path) -> None:
    node = LoggedNode(tmp_path)
    await node.obey(start())
    node.print("loss=nan", end="")
    node.processes.end(0, exit_code=1)
    [fault] = await node.told(RanksFaulted)
    [death] = await node.told(WorkerExited)
    assert (fault.rule_id, death.exit.rank, death.ordinal) == ("LogSlow_nan", 0, 1)


async def test_a_fault_during_the_start_waits_until_the_ranks_are_known(tmp_path: Path) -> None:
    node = LoggedNode(tmp_path)
    node.processes.hold = asyncio.Event()
    starting = asyncio.create_task(node.obey(start()))
    while node.life.phase is not AgentPhase.RUNNING:  # noqa: ASYNC110 - the start is held by the test, not by time
        await asyncio.sleep(0)
    node.print("loss=nan", rank=1)
    assert await node.told(RanksFaulted) == []
    node.processes.hold.set()
    await starting
    assert [fault.suspects[0].rank for fault in await node.told(RanksFaulted)] == [1]


async def test_output_of_an_older_generation_says_nothing_about_this_one(tmp_path: Path) -> None:
    node = LoggedNode(tmp_path)
    await node.obey(start())
    await node.obey(stop())
    await node.obey(start(2, attempt=1))
    node.print("loss=nan", version=1)
    assert await node.told(RanksFaulted) == []
    node.print("loss=nan", version=2)
    assert [fault.topology_version for fault in await node.told(RanksFaulted)] == [2]


async def test_a_rank_that_is_through_is_not_missed(tmp_path: Path) -> None:
    node = LoggedNode(tmp_path, HANGING)
    await node.obey(start())
    for rank in (0, 1):
        node.print('[Epoch 0 Batch 1] "training_loss_step": 1', rank=rank)
    node.processes.end(0, exit_code=0)
    node.clock.at_s = 301.0
    node.watch.tick()
    [fault] = await node.told(RanksFaulted)
    assert [suspect.rank for suspect in fault.suspects] == [1]
    assert (fault.rule_id, fault.reason) == (
        "LogHang_JobHangingDetection",
        "JobHangingDetection is hanging: no line matched for 300 s, after 1 that did",
    )


BEGIN = "Experiment configuration: {}"
BATCH = "[Epoch 0 Batch 7] metrics: {'training_loss_step': 0.5}"
SAVED = "The checkpoint is finalized. All shards are written"


def every(seconds: int, line: str, *, to_s: int) -> list[tuple[float, str]]:
    return [(float(at_s), line) for at_s in range(0, to_s, seconds)]


@pytest.mark.parametrize(
    ("lines", "to_s", "expected"),
    [
        ([], 121.0, (120.0, "LogHang_JobStart", None)),
        ([(0.0, BEGIN)], 601.0, (600.0, "LogHang_JobHangingDetection", None)),
        ([(0.0, BEGIN), *every(200, BATCH, to_s=500)], 2_000.0, (700.0, "LogHang_JobHangingDetection", 0)),
        (
            [(0.0, BEGIN), *every(200, BATCH, to_s=3_000)],
            2_000.0,
            (1_800.0, "LogHang_NoS3CheckpointingDetection", None),
        ),
        (
            [(0.0, BEGIN), *every(200, BATCH, to_s=3_000), (100.0, SAVED)],
            2_000.0,
            (700.0, "LogHang_NoS3CheckpointingDetection", 0),
        ),
        ([(0.0, BEGIN), *every(200, BATCH, to_s=3_000), *every(500, SAVED, to_s=3_000)], 2_500.0, None),
        (
            [(0.0, BEGIN), *every(1, "x Throughput: 80 samples/sec", to_s=30)],
            60.0,
            (24.0, "LogSlow_LowThroughputDetection", 0),
        ),
        ([(0.0, BEGIN), *every(1, "x Throughput: 80.5 samples/sec", to_s=30)], 60.0, None),
        ([(0.0, BEGIN), *every(1, "training_loss_step 2.5", to_s=5)], 60.0, (4.0, "LogSlow_LossSpikeDetection", 0)),
        ([(0.0, BEGIN), *every(1, "training_loss_step 2.5", to_s=4), (5.0, "training_loss_step 1.5")], 60.0, None),
        ([(0.0, BEGIN), (7.0, "RuntimeError: CUDA out of memory")], 60.0, (7.0, "LogFault_GPU Error", 0)),
    ],
)
async def test_hyperpods_documented_rules_fault_as_documented(
    tmp_path: Path, lines: list[tuple[float, str]], to_s: float, expected: tuple[float, str, int | None] | None
) -> None:
    """At the moment it is due; the rank is named that printed the line, else the node is meant."""
    node = LoggedNode(tmp_path, HYPERPOD.read_text())
    await node.obey(start())

    def pass_to(at_s: float) -> None:
        while (due_s := node.watch.next_deadline_s) is not None and due_s <= at_s:
            node.clock.at_s = max(node.clock.at_s, due_s)
            node.watch.tick()
        node.clock.at_s = at_s

    for at_s, line in sorted(lines, key=lambda item: item[0]):
        if at_s < to_s:
            pass_to(at_s)
            node.print(line)
    pass_to(to_s)
    faults = await node.told(RanksFaulted)
    if expected is None:
        assert faults == []
        return
    first = faults[0]
    rank = first.suspects[0].rank if first.suspects else None
    assert ((first.observed_at - T0).total_seconds(), first.rule_id, rank) == expected
    assert first.evidence_path


async def test_the_timer_tells_what_is_overdue_and_ends_with_the_ranks(tmp_path: Path) -> None:
    node = LoggedNode(tmp_path, JOB_START.replace("120", "0.05"))
    await node.obey(start())
    loop = asyncio.get_running_loop()
    node.clock.at_s = 0.06
    began_s = loop.time()
    while not await node.told(RanksFaulted):
        assert loop.time() < began_s + 20
        await asyncio.sleep(0.01)
    await node.obey(stop())
    assert node.feed._timer is None
