"""Confirmations that pass their check are told once; those that do not are said, are a signal, and do not count."""

import asyncio
from pathlib import Path

import pytest
from agent_fakes import Node, start, stop

from fault_contracts.agent import CheckpointReported
from fault_contracts.health import SignalObserved
from fault_contracts.payload import Health
from node_agent.application.discover_checkpoints import PENDING_MAX, TOLD_MAX, CheckpointDiscovery
from node_agent.domain.checkpoint_check import CheckLevel, PathFacts, PathKind
from worker_link.messages import CheckpointSaved

pytestmark = pytest.mark.asyncio
GOOD = PathFacts(kind=PathKind.FILE, files=1, size_bytes=10, changed_ns=1)
GONE = PathFacts(kind=PathKind.MISSING)


async def node_with(tmp_path: Path, level: CheckLevel, *, patience_s: float = 10.0) -> tuple[Node, CheckpointDiscovery]:
    node = Node(tmp_path)
    node.clock.ticks = True
    await node.obey(start())
    found = CheckpointDiscovery(
        node.life, node.outgoing, node.clock, node, node.files, level=level, patience_s=patience_s
    )
    return node, found


async def told(node: Node, found: CheckpointDiscovery) -> list[tuple[int, int, str]]:
    await found.drain(30)
    await asyncio.sleep(0)
    return [(r.rank, r.step, r.path) for r in await node.reports_from() if isinstance(r, CheckpointReported)]


async def signals(node: Node) -> list[SignalObserved]:
    return [report for report in await node.reports_from() if isinstance(report, SignalObserved)]


async def test_a_file_that_is_there_is_told_with_the_process_that_saw_it(tmp_path: Path) -> None:
    node, found = await node_with(tmp_path, CheckLevel.EXISTS)
    node.files.looks["model.pt"] = [GOOD]
    found.confirm(1, step=10, path="model.pt", source="worker_link")
    assert await told(node, found) == [(1, 10, "model.pt")]
    [(_, level, pid)] = node.files.asked
    assert (level, pid) == (CheckLevel.EXISTS, node.life.handles[1].pid)


async def test_a_file_that_comes_a_moment_later_counts(tmp_path: Path) -> None:
    node, found = await node_with(tmp_path, CheckLevel.EXISTS)
    node.files.looks["/c/10"] = [GONE, GONE, GOOD]
    found.confirm(0, step=10, path="/c/10", source="rule")
    assert await told(node, found) == [(0, 10, "/c/10")]
    assert await signals(node) == []


async def test_a_file_that_does_not_come_is_said_and_is_a_signal_until_the_next_one_is_right(tmp_path: Path) -> None:
    node, found = await node_with(tmp_path, CheckLevel.EXISTS)
    node.files.looks["/c/20"] = [GOOD]
    found.confirm(0, step=10, path="/c/10", source="worker_link")
    assert await told(node, found) == []
    assert any("step 10 of rank 0 (worker_link) does not count: /c/10 does not exist" in line for line in node.said)
    found.confirm(0, step=20, path="/c/20", source="worker_link")
    assert await told(node, found) == [(0, 20, "/c/20")]
    assert [(s.check, s.health, s.rank) for s in await signals(node)] == [
        ("checkpoint_check", Health.BAD, 0),
        ("checkpoint_check", Health.OK, 0),
    ]


async def test_size_is_compared_over_two_looks(tmp_path: Path) -> None:
    node, found = await node_with(tmp_path, CheckLevel.SIZE)
    growing = [PathFacts(kind=PathKind.FILE, files=1, size_bytes=size, changed_ns=size) for size in (1, 5, 9)]
    node.files.looks["/c/10"] = [*growing, GOOD]
    found.confirm(0, step=10, path="/c/10", source="worker_link")
    assert await told(node, found) == [(0, 10, "/c/10")]
    assert len(node.files.asked) == 5


async def test_what_cannot_be_seen_from_here_is_the_ranks_word(tmp_path: Path) -> None:
    node, found = await node_with(tmp_path, CheckLevel.CHECKSUM)
    node.files.looks["relative"] = [PathFacts(kind=PathKind.UNSEEN)]
    for rank, path in ((0, "s3://bucket/10"), (1, "")):
        found.confirm(rank, step=10, path=path, source="worker_link")
    assert node.files.asked == []
    found.confirm(0, step=11, path="relative", source="worker_link")
    assert [path for _, _, path in await told(node, found)] == ["s3://bucket/10", "", "relative"]


async def test_two_sources_of_one_checkpoint_are_one_report(tmp_path: Path) -> None:
    node, found = await node_with(tmp_path, CheckLevel.NONE)
    found.confirm(0, step=10, path="/c/10", source="worker_link")
    found.confirm(0, step=10, path="", source="rule")
    found.confirm(0, step=10, path="/c/10", source="checkpoint_dir")
    assert await told(node, found) == [(0, 10, "/c/10")]
    newest = found.newest()
    assert newest is not None
    assert newest.step == 10


async def test_what_cannot_be_right_is_refused_and_does_not_fill_the_terminal(tmp_path: Path) -> None:
    node, found = await node_with(tmp_path, CheckLevel.NONE)
    for number in range(100):
        found.confirm(99, step=number, path="/c", source="rule")
    found.confirm(0, step=2**70, path="/c", source="rule")
    found.confirm(0, step=1, path="/c", source="rule")
    assert await told(node, found) == [(0, 1, "/c")]
    assert len([line for line in node.said if "was refused" in line]) == TOLD_MAX
    assert "rank 99 is not on this node" in node.said[1]


async def test_a_file_system_that_does_not_answer_stops_nothing(tmp_path: Path) -> None:
    node, found = await node_with(tmp_path, CheckLevel.EXISTS)
    hanging = asyncio.Event()

    async def look(_path: str, _level: CheckLevel, *, pid: int | None) -> PathFacts:
        await hanging.wait()
        return GOOD

    node.files.look = look  # type: ignore[method-assign]
    for step in range(PENDING_MAX + 1):
        found.confirm(0, step=step, path="/c", source="worker_link")
    assert "wait for the file system" in node.said[-1]
    await found.drain(0.01)
    assert [report for report in await node.reports_from() if isinstance(report, CheckpointReported)] == []


async def test_a_late_word_of_the_generation_before_keeps_its_version(tmp_path: Path) -> None:
    node, _ = await node_with(tmp_path, CheckLevel.NONE)
    old = node.life.handles[1]
    await node.obey(stop())
    await node.obey(start(2, attempt=1))
    node.relay.on_checkpoint(old, CheckpointSaved(step=50, path="/c/50"))
    [report] = [r for r in await node.reports_from() if isinstance(r, CheckpointReported)]
    assert (report.topology_version, report.rank) == (1, 1)
