"""Ends of workers, and what the planner and the person hear of them."""

from pathlib import Path

import pytest
from agent_fakes import Node, start, stop

from fault_contracts.agent import AgentPhase, OomKill, WorkerExited, WorkersCompleted
from fault_contracts.commands import CheckpointRef
from node_agent.application.ports import OomKill as SeenOomKill
from node_agent.application.ports import WorkerError
from worker_link.messages import Step

pytestmark = pytest.mark.asyncio


async def started(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    await node.obey(start(checkpoint=CheckpointRef(step=40, path="/c/40")))
    return node


async def test_a_death_is_told_at_once_with_all_that_is_known(tmp_path: Path) -> None:
    node = await started(tmp_path)
    for handle in node.processes.alive.values():
        node.relay.on_step(handle, Step(step=47, at_monotonic_s=0.0))
    error = WorkerError(source="stderr", type="RuntimeError", message="boom", fingerprint="f1", frames=("a", "b"))
    node.clock.at_s = 9.0
    node.processes.end(1, exit_code=3, error=error, ran_s=8.5, stderr_tail=("x" * 5_000,))
    told = next(r for r in await node.reports_from() if isinstance(r, WorkerExited))
    assert (told.exit.rank, told.exit.exit_code, told.exit.signal, told.ordinal) == (1, 3, None, 0)
    assert (told.step, told.checkpoint_step, told.ran_s) == (47, 40, 8.5)
    assert told.error is not None
    assert (told.error.fingerprint, told.error.frames) == ("f1", ("a", "b"))
    assert told.observed_at == node.clock.now()
    assert len(told.stderr_tail[0]) == 2_000
    assert told.log_dir.endswith("attempt_1/1")
    assert node.urgent(WorkerExited) == [True]
    assert node.life.phase is AgentPhase.FAULTED
    assert len(node.processes.alive) == 1, "siblings run until the planner says stop"


async def test_the_second_death_has_the_next_ordinal_and_the_first_is_kept_for_the_story(tmp_path: Path) -> None:
    node = await started(tmp_path)
    node.processes.end(1, signal=9, oom_kill=SeenOomKill.YES)
    node.processes.end(0, exit_code=1)
    told = [r for r in await node.reports_from() if isinstance(r, WorkerExited)]
    assert [report.ordinal for report in told] == [0, 1]
    assert told[0].exit.oom_kill is OomKill.YES
    assert node.life.first_failure is not None
    assert node.life.first_failure.handle.rank == 1
    assert any("OOM killer" in line for line in node.said)


async def test_clean_ends_are_told_once_for_the_node(tmp_path: Path) -> None:
    node = await started(tmp_path)
    node.processes.end(0, exit_code=0)
    assert node.life.phase is AgentPhase.RUNNING
    node.processes.end(1, exit_code=0)
    reports = await node.reports_from()
    assert [r.topology_version for r in reports if isinstance(r, WorkersCompleted)] == [1]
    assert not [r for r in reports if isinstance(r, WorkerExited)]
    assert node.life.phase is AgentPhase.COMPLETED


async def test_a_completed_node_can_be_called_back(tmp_path: Path) -> None:
    node = await started(tmp_path)
    node.processes.end(0, exit_code=0)
    node.processes.end(1, exit_code=0)
    await node.obey(stop())
    await node.obey(start(2, attempt=1))
    assert node.life.phase is AgentPhase.RUNNING
    assert len(node.processes.alive) == 2


async def test_ends_that_the_agent_asked_for_are_no_news(tmp_path: Path) -> None:
    node = await started(tmp_path)
    await node.obey(stop())
    assert not [r for r in await node.reports_from() if isinstance(r, WorkerExited)]


async def test_a_late_end_of_an_older_generation_is_no_news(tmp_path: Path) -> None:
    node = await started(tmp_path)
    old = next(iter(node.processes.alive.values()))
    await node.obey(stop())
    await node.obey(start(2, attempt=1))
    node.processes.callback(node.processes.exit_of(old, exit_code=1))
    assert node.life.phase is AgentPhase.RUNNING
    assert not [r for r in await node.reports_from() if isinstance(r, WorkerExited)]


async def test_an_unknown_status_is_a_failure_and_stays_unknown(tmp_path: Path) -> None:
    node = await started(tmp_path)
    node.processes.end(0, status_reason="the nursery ended before it could tell")
    told = next(r for r in await node.reports_from() if isinstance(r, WorkerExited))
    assert (told.exit.exit_code, told.exit.signal, told.exit.oom_kill) == (None, None, OomKill.UNKNOWN)
    assert any("unknown" in line for line in node.said)


async def test_a_rank_that_was_dead_when_the_stop_began_is_told_as_a_death(tmp_path: Path) -> None:
    node = await started(tmp_path)
    node.life.phase = AgentPhase.STOPPING
    node.processes.end(1, signal=9)
    told = next(r for r in await node.reports_from() if isinstance(r, WorkerExited))
    assert (told.exit.rank, told.exit.signal) == (1, 9)
    assert node.life.phase is AgentPhase.STOPPING, "the stop goes on"


async def test_a_gang_that_is_being_stopped_does_not_complete(tmp_path: Path) -> None:
    node = await started(tmp_path)
    node.life.phase = AgentPhase.STOPPING
    node.processes.end(0, exit_code=0)
    node.processes.end(1, exit_code=0)
    assert not [r for r in await node.reports_from() if isinstance(r, WorkersCompleted)]
    assert node.life.phase is AgentPhase.STOPPING
