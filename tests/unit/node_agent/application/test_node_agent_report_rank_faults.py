"""A rank that lives and cannot go on: what the planner and the person hear, how often, and with which evidence."""

import asyncio
import json
from pathlib import Path

import pytest
from agent_fakes import Node, start, stop

from fault_contracts.agent import AgentPhase, WorkerExited, WorkersCompleted
from fault_contracts.commands import CheckpointRef
from fault_contracts.rank_faults import RanksFaulted
from node_agent.application.report_rank_faults import RankFault, ReportOutcome, Suspected
from training_topology.identity import Rank

pytestmark = pytest.mark.asyncio


def fault(*ranks: int, rule_id: str = "LogFault_loss", **more: object) -> RankFault:
    suspects = tuple(Suspected(rank=Rank(rank), evidence=f"loss: nan on {rank}") for rank in ranks)
    values: dict[str, object] = {"check": "log_rule", "reason": "loss is faulted: the line matched", **more}
    return RankFault(rule_id=rule_id, suspects=suspects, **values)  # type: ignore[arg-type]


async def told(node: Node) -> list[RanksFaulted]:
    await node.faults.drain()
    return [report for report in await node.reports_from() if isinstance(report, RanksFaulted)]


async def started(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    await node.obey(start(checkpoint=CheckpointRef(step=40, path="/c/40")))
    return node


async def test_the_report_is_urgent_complete_and_breaks_the_group(tmp_path: Path) -> None:
    node = await started(tmp_path)
    node.clock.at_s = 5.0
    assert node.faults.report(fault(1, silent_s=3.0)) is ReportOutcome.REPORTED
    assert node.life.phase is AgentPhase.FAULTED, "at once, before the evidence is on disk"
    [report] = await told(node)
    [suspect] = report.suspects
    assert (suspect.rank, suspect.local_rank, suspect.evidence) == (1, 1, "loss: nan on 1")
    assert suspect.pid in node.processes.alive
    assert (report.check, report.rule_id, report.topology_version) == ("log_rule", "LogFault_loss", 1)
    assert (report.checkpoint_step, report.ran_s, report.silent_s) == (40, 5.0, 3.0)
    assert report.evidence_path == "/logs/attempt_1/evidence_1"
    assert node.urgent(RanksFaulted) == [True]
    assert any("rank 1 cannot go on (LogFault_loss)" in line for line in node.said)


async def test_evidence_is_saved_before_the_report_leaves(tmp_path: Path) -> None:
    node = await started(tmp_path)
    node.evidence.gate = asyncio.Event()
    node.faults.report(fault(1, files={"stacks.txt": "Thread 0x1"}))
    await asyncio.sleep(0)
    assert not [r for r in await node.reports_from() if isinstance(r, RanksFaulted)]
    node.evidence.gate.set()
    assert len(await told(node)) == 1
    [(version, texts, tails)] = node.evidence.saved
    assert version == 1
    assert texts["stacks.txt"] == "Thread 0x1"
    assert json.loads(texts["fault.json"])["reason"] == "loss is faulted: the line matched"
    assert tails == {
        "rank_1_stdout.log": tmp_path / "attempt_1/1/stdout.log",
        "rank_1_stderr.log": tmp_path / "attempt_1/1/stderr.log",
    }


async def test_a_disk_that_takes_nothing_does_not_silence_the_report(tmp_path: Path) -> None:
    node = await started(tmp_path)
    node.evidence.full = True
    node.faults.report(fault(1))
    assert [report.evidence_path for report in await told(node)] == [""]


async def test_a_rank_is_told_once_in_a_generation(tmp_path: Path) -> None:
    node = await started(tmp_path)
    node.faults.report(fault(1))
    assert node.faults.report(fault(1, rule_id="LogHang_step")) is ReportOutcome.REPEATED
    assert node.faults.report(fault(0, 1, rule_id="LogHang_step")) is ReportOutcome.REPORTED
    assert [report.rule_id for report in await told(node)] == ["LogFault_loss", "LogHang_step"]
    await node.obey(stop())
    await node.obey(start(2, attempt=1))
    assert node.faults.report(fault(1)) is ReportOutcome.REPORTED
    assert [report.topology_version for report in await told(node)] == [1, 1, 2]


async def test_a_fault_of_nobody_is_told_once_with_the_last_lines_of_all(tmp_path: Path) -> None:
    node = await started(tmp_path)
    assert node.faults.report(fault(check="hang")) is ReportOutcome.REPORTED
    assert node.faults.report(fault(check="hang")) is ReportOutcome.REPEATED
    [report] = await told(node)
    assert report.suspects == ()
    assert len(node.evidence.saved[0][2]) == 4
    node.processes.end(0, exit_code=0)
    node.processes.end(1, exit_code=0)
    assert not [r for r in await node.reports_from() if isinstance(r, WorkersCompleted)], "it was told as broken"


async def test_nothing_is_told_of_ranks_that_ended_or_are_being_stopped(tmp_path: Path) -> None:
    node = await started(tmp_path)
    node.processes.end(1, exit_code=3)
    assert node.faults.report(fault(1)) is ReportOutcome.NOBODY_LIVES
    await node.obey(stop())
    assert node.faults.report(fault(0)) is ReportOutcome.NOT_RUNNING
    assert await told(node) == []


async def test_a_death_while_evidence_is_saved_is_told_and_so_is_the_fault(tmp_path: Path) -> None:
    node = await started(tmp_path)
    node.evidence.gate = asyncio.Event()
    node.faults.report(fault(1))
    node.processes.end(1, signal=6)
    node.evidence.gate.set()
    assert len(await told(node)) == 1
    [death] = [r for r in await node.reports_from() if isinstance(r, WorkerExited)]
    assert (death.exit.rank, death.ordinal) == (1, 1), "the fault came first"
    assert node.life.phase is AgentPhase.FAULTED


async def test_a_stop_that_is_faster_than_the_disk_makes_the_report_void(tmp_path: Path) -> None:
    node = await started(tmp_path)
    node.evidence.gate = asyncio.Event()
    node.faults.report(fault(1))
    await node.obey(stop())
    node.evidence.gate.set()
    assert await told(node) == []
    assert any("not reported any more" in line for line in node.said)
