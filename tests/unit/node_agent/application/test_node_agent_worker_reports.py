"""Steps are thinned out, the first of a generation is not; checkpoints and labels go out at once."""

import asyncio
from pathlib import Path

import pytest
from agent_fakes import Node, start, stop

from fault_contracts.agent import CheckpointReported, RankLabelsReported, StepReported
from node_agent.application.ports import WorkerHandle
from worker_link.messages import CheckpointSaved, RankLabels, RestartMode, RestartRequest, Step, StepPhase

pytestmark = pytest.mark.asyncio


def handles(node: Node) -> list[WorkerHandle]:
    return sorted(node.processes.alive.values(), key=lambda handle: handle.rank)


def step(node: Node, local_rank: int, number: int, phase: StepPhase = StepPhase.FINISHED) -> None:
    node.relay.on_step(handles(node)[local_rank], Step(step=number, phase=phase, at_monotonic_s=0.0))


async def steps(node: Node) -> list[tuple[int, int, bool]]:
    return [
        (report.topology_version, report.step, report.first)
        for report in await node.reports_from()
        if isinstance(report, StepReported)
    ]


async def test_the_first_step_goes_out_when_the_last_rank_has_it(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    step(node, 0, 10)
    step(node, 1, 10, StepPhase.STARTED)
    assert await steps(node) == []
    step(node, 1, 10)
    assert await steps(node) == [(1, 10, True)]
    assert node.urgent(StepReported) == [True]


async def test_later_steps_at_most_once_a_second_and_the_newest_is_not_lost(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    for number in range(1, 6):
        step(node, 0, number)
        step(node, 1, number)
    assert await steps(node) == [(1, 1, True)]
    await asyncio.sleep(1.05)
    assert await steps(node) == [(1, 1, True), (1, 5, False)]
    node.clock.at_s = 10.0
    step(node, 0, 6)
    step(node, 1, 6)
    assert (await steps(node))[-1] == (1, 6, False)


async def test_each_generation_has_its_own_first_step_and_old_workers_do_not_count(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    old = handles(node)
    await node.obey(stop())
    await node.obey(start(2, attempt=1))
    for handle in old:
        node.relay.on_step(handle, Step(step=99, at_monotonic_s=0.0))
    assert await steps(node) == []
    step(node, 0, 41)
    step(node, 1, 41)
    assert await steps(node) == [(2, 41, True)]


async def test_checkpoints_carry_the_rank_of_the_process_that_speaks(tmp_path: Path) -> None:
    node = Node(tmp_path, node_id="n1")
    await node.obey(start())
    node.relay.on_checkpoint(handles(node)[1], CheckpointSaved(step=50, path="/c/50", writers=4))
    [told] = [r for r in await node.reports_from() if isinstance(r, CheckpointReported)]
    assert (told.rank, told.step, told.path, told.kind, told.writers) == (3, 50, "/c/50", "model", 4)


async def test_labels_are_passed_on(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    node.relay.on_labels(handles(node)[0], RankLabels(labels={"dp": "0"}))
    [told] = [r for r in await node.reports_from() if isinstance(r, RankLabelsReported)]
    assert (told.rank, told.labels) == (0, {"dp": "0"})


async def test_refused_clients_fill_no_terminal_and_a_restart_request_is_heard(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    for pid in range(100):
        node.relay.on_bad_client(pid, "malformed frame")
    assert len([line for line in node.said if "was refused" in line]) == 5
    node.relay.on_restart_request(handles(node)[0], RestartRequest(mode=RestartMode.PROCESS, reason="bad loss"))
    assert "bad loss" in node.said[-1]
