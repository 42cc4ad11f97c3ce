"""Restart in place as an agent does it: call back, wait, end who does not come, let in, fork the rest."""

import asyncio
import time
from pathlib import Path

import pytest
from agent_fakes import Node, start, stop

from fault_contracts.agent import AgentPhase, RestartAsked, WorkerExited, WorkersStarted, WorkersStopped
from fault_contracts.commands import CheckpointRef, StopMode
from fault_contracts.recovery_level import RecoveryLevel
from node_agent.application.ports import WorkerHandle
from worker_link.block_messages import Abort, AtBarrier, BlockEntered, BlockFaulted, BlockFinished, BlockOrder, Go
from worker_link.messages import CheckpointSaved, RestartMode, RestartRequest, Step

pytestmark = pytest.mark.asyncio

IN_PLACE = {"level": RecoveryLevel.IN_PROCESS, "ranks_replaced": ()}


def handle_of(node: Node, rank: int) -> WorkerHandle:
    return next(handle for handle in node.processes.alive.values() if handle.rank == rank)


async def training(tmp_path: Path) -> Node:
    """Two ranks inside their blocks; a rank that is called back comes to the barrier at once."""
    node = Node(tmp_path)
    await node.obey(start())
    for rank in (0, 1):
        node.relay.on_block(handle_of(node, rank), BlockEntered(topology_version=1))

    def come(handle: WorkerHandle, order: BlockOrder) -> None:
        if isinstance(order, Abort):
            node.relay.on_block(handle, AtBarrier(topology_version=order.topology_version, healthy=True))

    node.line.answer = come
    return node


def stop_in_place(version: int = 1, *, barrier_s: float = 5.0, **more: object):  # type: ignore[no-untyped-def]
    return stop(version, mode=StopMode.IN_PROCESS, barrier_s=barrier_s, **more)


async def test_the_node_announces_once_when_the_last_rank_is_inside(tmp_path: Path) -> None:
    node = await training(tmp_path)
    assert node.announced == 1
    assert node.life.in_process


async def test_an_exception_ends_no_process_and_is_told_with_its_error(tmp_path: Path) -> None:
    node = await training(tmp_path)
    trace = 'Traceback (most recent call last):\n  File "train.py", line 3, in load\n    x\nOSError: gone\n'
    fault = BlockFaulted(topology_version=1, error_type="OSError", message="gone", callstack=trace, step=7)
    place = len(node.outbox.sent)
    node.relay.on_block(handle_of(node, 1), fault)
    [told] = await node.reports_from(place)
    assert isinstance(told, WorkerExited)
    assert told.process_alive
    assert (told.exit.rank, told.exit.exit_code, told.exit.signal, told.step, told.ordinal) == (1, None, None, 7, 0)
    assert told.error is not None
    assert (told.error.type, told.error.message, len(told.error.frames)) == ("OSError", "gone", 1)
    assert node.life.phase is AgentPhase.FAULTED
    assert len(node.processes.alive) == 2


async def test_ranks_keep_their_processes_over_stop_and_start(tmp_path: Path) -> None:
    node = await training(tmp_path)
    pids = set(node.processes.alive)
    [stopped] = await node.obey(stop_in_place())
    assert isinstance(stopped, WorkersStopped)
    assert (stopped.at_barrier, stopped.exits, stopped.master_port) == ((0, 1), (), 5_002)
    assert node.life.phase is AgentPhase.READY
    checkpoint = CheckpointRef(step=40, path="/c/40")
    [started] = await node.obey(start(2, attempt=1, checkpoint=checkpoint, restart_count=1, **IN_PLACE))
    assert isinstance(started, WorkersStarted)
    assert (started.survivors, started.source) == ((0, 1), "in_process")
    assert set(node.processes.alive) == set(started.pids) == pids
    go = node.line.orders[-1][1]
    assert isinstance(go, Go)
    assert (go.topology_version, go.checkpoint_step, go.checkpoint_path) == (2, 40, "/c/40")
    assert (go.env["RANK"], go.env["PHALANX_TOPOLOGY_VERSION"]) == ("1", "2")
    assert go.env["TORCHELASTIC_RESTART_COUNT"] == "1"
    assert "HOME" not in go.env, "only what a generation sets"


async def test_steps_and_checkpoints_carry_the_generation_they_were_made_in(tmp_path: Path) -> None:
    node = await training(tmp_path)
    await node.obey(stop_in_place())
    await node.obey(start(2, attempt=1, **IN_PLACE))
    place = len(node.outbox.sent)
    for rank in (0, 1):
        node.relay.on_step(handle_of(node, rank), Step(step=9, at_monotonic_s=0.0, topology_version=1))
    assert await node.reports_from(place) == [], "a late step of the old generation is no progress of the new one"
    node.relay.on_checkpoint(handle_of(node, 0), CheckpointSaved(step=9, path="/c/9", topology_version=1, writers=1))
    for rank in (0, 1):
        node.relay.on_step(handle_of(node, rank), Step(step=41, at_monotonic_s=0.0, topology_version=2))
    saved, stepped = await node.reports_from(place)
    assert (saved.topology_version, saved.writers) == (1, 1)  # type: ignore[attr-defined]
    assert (stepped.topology_version, stepped.first) == (2, True)  # type: ignore[attr-defined]


async def test_a_rank_that_does_not_come_is_ended_at_the_deadline(tmp_path: Path) -> None:
    node = await training(tmp_path)
    come = node.line.answer
    node.line.answer = lambda handle, order: come(handle, order) if handle.rank == 0 else None
    began_s = time.monotonic()
    [stopped] = await node.obey(stop_in_place(barrier_s=0.1))
    assert isinstance(stopped, WorkersStopped)
    assert 0.1 <= time.monotonic() - began_s < 2
    assert stopped.at_barrier == (0,)
    assert [ended.rank for ended in stopped.exits] == [1]
    assert any("did not come to the barrier" in line for line in node.said)
    [started] = await node.obey(start(2, attempt=1, level=RecoveryLevel.IN_PROCESS, ranks_replaced=(1,)))
    assert isinstance(started, WorkersStarted)
    assert started.survivors == (0,)
    assert [spec.rank for spec in node.processes.specs] == [0, 1, 1]


async def test_a_condemned_rank_is_ended_at_once_and_not_waited_for(tmp_path: Path) -> None:
    node = await training(tmp_path)
    began_s = time.monotonic()
    [stopped] = await node.obey(stop_in_place(barrier_s=30.0, ranks=(1,)))
    assert isinstance(stopped, WorkersStopped)
    assert time.monotonic() - began_s < 2
    assert (stopped.at_barrier, [ended.rank for ended in stopped.exits]) == ((0,), [1])
    assert [rank for rank, _ in node.line.orders] == [0], "a condemned rank is not called back"
    assert node.processes.condemned == {1}, "nor given a grace"


async def test_a_dead_rank_is_replaced_alone(tmp_path: Path) -> None:
    node = await training(tmp_path)
    survivor = handle_of(node, 0).pid
    node.processes.end(1, signal=9)
    stopped = (await node.obey(stop_in_place()))[-1]
    assert isinstance(stopped, WorkersStopped)
    assert stopped.at_barrier == (0,)
    [started] = await node.obey(start(2, attempt=1, level=RecoveryLevel.IN_PROCESS, ranks_replaced=(1,)))
    assert isinstance(started, WorkersStarted)
    assert started.pids[0] == survivor
    assert started.pids[1] == 1_003
    assert node.life.in_process


async def test_a_rank_that_dies_at_the_barrier_is_told_and_replaced_although_nobody_asked(tmp_path: Path) -> None:
    node = await training(tmp_path)
    await node.obey(stop_in_place())
    place = len(node.outbox.sent)
    node.processes.end(1, signal=9)
    [told] = await node.reports_from(place)
    assert isinstance(told, WorkerExited)
    assert node.life.phase is AgentPhase.READY
    [started] = await node.obey(start(2, attempt=1, **IN_PLACE))
    assert isinstance(started, WorkersStarted)
    assert started.survivors == (0,)
    assert len(node.processes.alive) == 2


async def test_an_unhealthy_or_finished_rank_is_replaced(tmp_path: Path) -> None:
    node = await training(tmp_path)
    node.relay.on_block(handle_of(node, 0), BlockFinished(topology_version=1))
    node.line.answer = lambda handle, _order: node.relay.on_block(
        handle, AtBarrier(topology_version=1, healthy=False, reason="the health check returned False")
    )
    [stopped] = await node.obey(stop_in_place())
    assert isinstance(stopped, WorkersStopped)
    assert stopped.at_barrier == ()
    assert sorted(ended.rank for ended in stopped.exits) == [0, 1]
    assert not node.life.in_process
    [started] = await node.obey(start(2, attempt=1))
    assert isinstance(started, WorkersStarted)


async def test_a_start_of_process_level_ends_who_stands_at_the_barrier(tmp_path: Path) -> None:
    node = await training(tmp_path)
    await node.obey(stop_in_place())
    [started] = await node.obey(start(2, attempt=1))
    assert isinstance(started, WorkersStarted)
    assert started.survivors == ()
    assert set(started.pids) == {1_003, 1_004} == set(node.processes.alive)
    assert not node.life.in_process
    assert node.port.number == 5_002, "the store address of the start was decided already"


async def test_a_script_without_blocks_is_stopped_as_ever(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    [stopped] = await node.obey(stop_in_place())
    assert isinstance(stopped, WorkersStopped)
    assert stopped.at_barrier == ()
    assert len(stopped.exits) == 2


async def test_a_survivor_that_cannot_be_reached_gets_a_new_process(tmp_path: Path) -> None:
    node = await training(tmp_path)
    await node.obey(stop_in_place())
    node.line.deaf.add(1)
    [started] = await node.obey(start(2, attempt=1, **IN_PLACE))
    assert isinstance(started, WorkersStarted)
    assert started.survivors == (0,)
    assert started.pids[1] == 1_003


async def test_the_gravest_wish_counts_and_lesser_ones_are_not_repeated(tmp_path: Path) -> None:
    node = await training(tmp_path)
    place = len(node.outbox.sent)
    for rank, mode in ((0, "process"), (1, "in_process"), (1, "job"), (0, "job")):
        node.relay.on_restart_request(handle_of(node, rank), RestartRequest(mode=RestartMode(mode), reason="r"))
    told = await node.reports_from(place)
    assert [report.restart_asked for report in told] == [RestartAsked.PROCESS, RestartAsked.JOB]  # type: ignore[attr-defined]
    assert all(report.process_alive for report in told)  # type: ignore[attr-defined]


async def test_words_of_another_version_are_not_obeyed(tmp_path: Path) -> None:
    node = await training(tmp_path)
    node.line.answer = lambda _handle, _order: None
    stopping = asyncio.create_task(node.obey(stop_in_place(barrier_s=0.2)))
    await asyncio.sleep(0.01)
    for rank in (0, 1):
        node.relay.on_block(handle_of(node, rank), AtBarrier(topology_version=0, healthy=True))
    [stopped] = await stopping
    assert isinstance(stopped, WorkersStopped)
    assert stopped.at_barrier == ()


async def test_a_death_that_is_heard_of_during_the_stop_is_still_told(tmp_path: Path) -> None:
    node = await training(tmp_path)
    node.line.answer = lambda _handle, _order: None
    stopping = asyncio.create_task(node.obey(stop_in_place(barrier_s=0.2)))
    await asyncio.sleep(0.01)
    node.processes.end(1, signal=9)
    told = await stopping
    assert [type(report) for report in told] == [WorkerExited, WorkersStopped]
    assert told[0].exit.signal == 9  # type: ignore[attr-defined]
