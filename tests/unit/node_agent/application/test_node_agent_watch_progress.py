"""Hang detection over one node: what begins an inquiry, what ends in a report, and what must not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from agent_fakes import start, stop
from hang_scene import stack_dumps, watched

from fault_contracts.agent import AgentPhase, WorkersCompleted
from node_agent.application.ports import WorkerHandle
from node_agent.application.progress_ports import ProcessSample
from node_agent.application.watch_states import POLL_S
from node_agent.domain.hang_policies import DetectionMode, DetectionPolicy
from node_agent.domain.rank_evidence import ProcessState
from worker_link.phase_messages import PhaseBegun, PhaseDone

pytestmark = pytest.mark.asyncio


async def test_a_stopped_rank_is_reported_within_a_second_with_evidence(tmp_path: Path) -> None:
    scene = await watched(tmp_path)
    await scene.train(40)
    began_s = scene.node.clock.at_s
    scene.machine.states[1] = ProcessState.STOPPED
    scene.machine.busy = {0}
    while scene.node.life.phase is AgentPhase.RUNNING and scene.node.clock.at_s < began_s + 5:
        await scene.pass_time(POLL_S)
    assert scene.node.clock.at_s - began_s <= 1.0
    (fault,) = await scene.faults()
    assert (fault.check, fault.rule_id, fault.step) == ("process_stopped", "hang_stopped", 40)
    assert [suspect.rank for suspect in fault.suspects] == [1]
    assert scene.node.life.phase is AgentPhase.FAULTED
    assert [1] not in scene.machine.asked, "a stopped process is asked for nothing"
    _, texts, _ = scene.node.evidence.saved[0]
    assert "all_reduce" in texts["stacks_rank_0.txt"]
    assert '"state": "T"' in texts["processes.json"]
    assert "SeqNum=7" in texts["open_collectives.txt"]


async def test_a_stop_of_a_moment_is_a_tools_look(tmp_path: Path) -> None:
    scene = await watched(tmp_path)
    await scene.train(40)
    scene.machine.states[1] = ProcessState.STOPPED
    await scene.pass_time(POLL_S)
    del scene.machine.states[1]
    await scene.train(100)
    await scene.pass_time(0.5)
    assert await scene.faults() == []


async def test_an_idle_rank_outside_of_the_collective_is_named_after_the_patience(tmp_path: Path) -> None:
    scene = await watched(tmp_path)
    await scene.train(100)
    scene.machine.busy = set()
    scene.machine.stacks[1] = stack_dumps.SLEEP
    await scene.pass_time(14.0)
    assert await scene.faults() == []
    await scene.pass_time(3.0)
    (fault,) = await scene.faults()
    assert (fault.check, fault.rule_id) == ("hang", "hang_outside")
    assert [suspect.rank for suspect in fault.suspects] == [1]
    assert "idle" in fault.suspects[0].evidence
    assert fault.silent_s == pytest.approx(15.0, abs=1.5)


async def test_a_rank_stopped_during_the_long_wait_between_two_inquiries_is_found_at_once(tmp_path: Path) -> None:
    scene = await watched(tmp_path)
    await scene.train(100)
    scene.machine.stacks = {0: stack_dumps.EVALUATE, 1: stack_dumps.EVALUATE}
    await scene.pass_time(40.0)
    assert await scene.faults() == []
    scene.machine.states[0] = ProcessState.STOPPED
    await scene.pass_time(1.0)
    assert [fault.check for fault in await scene.faults()] == ["process_stopped"]


async def test_a_declared_phase_is_no_hang_and_its_end_counts(tmp_path: Path) -> None:
    scene = await watched(tmp_path)
    await scene.train(100)
    rank_1 = scene.node.life.handles[1]
    scene.node.relay.on_phase(rank_1, PhaseBegun(phase="checkpoint", topology_version=1))
    scene.machine.busy = set()
    scene.machine.stacks[1] = stack_dumps.SLEEP
    await scene.pass_time(200.0)
    assert (await scene.faults(), scene.machine.asked) == ([], [])
    scene.node.relay.on_phase(rank_1, PhaseDone(topology_version=1))
    await scene.pass_time(20.0)
    assert [fault.rule_id for fault in await scene.faults()] == ["hang_outside"]


async def test_without_steps_cpu_time_is_progress_and_silence_is_looked_into(tmp_path: Path) -> None:
    scene = await watched(tmp_path, DetectionPolicy(silence_s=60.0))
    await scene.pass_time(600.0)
    assert scene.machine.asked == [], "ranks that use CPU are left alone"
    scene.machine.busy = set()
    scene.machine.stacks[1] = stack_dumps.SLEEP
    await scene.pass_time(58.0)
    assert scene.machine.asked == []
    await scene.pass_time(5.0)
    assert [fault.rule_id for fault in await scene.faults()] == ["hang_outside"]


async def test_without_steps_ranks_may_take_turns_and_one_may_work_for_hours(tmp_path: Path) -> None:
    scene = await watched(tmp_path, DetectionPolicy(silence_s=10.0))
    for turn in range(20):
        scene.machine.busy = {turn % 2}
        await scene.pass_time(5.0)
    assert scene.machine.asked == []
    scene.machine.busy = {0}
    scene.machine.stacks = {0: stack_dumps.SLEEP, 1: stack_dumps.ALL_REDUCE}
    await scene.pass_time(4_000.0)
    assert scene.machine.asked != []
    assert await scene.faults() == []


async def test_nothing_is_judged_while_the_ranks_are_stopped_or_dying(tmp_path: Path) -> None:
    scene = await watched(tmp_path)
    await scene.train(40)
    scene.node.processes.end(0, signal=9)
    scene.machine.states[1] = ProcessState.STOPPED
    await scene.pass_time(5.0)
    assert await scene.faults() == []
    await scene.node.obey(stop(1))
    await scene.pass_time(5.0)
    assert await scene.faults() == []


async def test_a_new_generation_begins_anew(tmp_path: Path) -> None:
    scene = await watched(tmp_path)
    await scene.train(100)
    await scene.node.obey(stop(1))
    await scene.node.obey(start(2, attempt=1).model_copy(update={"world_size": 2}))
    scene.machine.busy = set()
    scene.machine.stacks[1] = stack_dumps.SLEEP
    await scene.pass_time(25.0)
    assert await scene.faults() == [], "its first step has its own limit"
    scene.machine.states[1] = ProcessState.STOPPED
    await scene.pass_time(1.0)
    assert [fault.topology_version for fault in await scene.faults()] == [2]


async def test_the_end_of_a_job_has_no_pace(tmp_path: Path) -> None:
    scene = await watched(tmp_path)
    await scene.train(100)
    scene.node.processes.end(0, exit_code=0)
    scene.machine.busy = set()
    scene.machine.stacks[1] = stack_dumps.SLEEP
    await scene.pass_time(4_000.0)
    assert await scene.faults() == []
    scene.node.processes.end(1, exit_code=0)
    assert isinstance((await scene.node.reports_from())[-1], WorkersCompleted)


async def test_time_that_the_agent_lost_is_not_held_against_the_ranks(tmp_path: Path) -> None:
    scene = await watched(tmp_path)
    await scene.train(100)
    scene.node.clock.at_s += 500.0
    scene.watch.look(late_s=499.75)
    await asyncio.sleep(0)
    assert scene.machine.asked == []


async def test_on_one_node_of_several_a_gang_that_waits_elsewhere_is_left_alone(tmp_path: Path) -> None:
    scene = await watched(tmp_path, world_size=4)
    await scene.train(100)
    scene.machine.busy = set()
    await scene.pass_time(300.0)
    assert scene.machine.asked != []
    assert await scene.faults() == []


async def test_observed_hangs_are_told_once_and_not_acted_on(tmp_path: Path) -> None:
    scene = await watched(tmp_path, DetectionPolicy(mode=DetectionMode.OBSERVE))
    await scene.train(40)
    scene.machine.states[1] = ProcessState.STOPPED
    await scene.pass_time(100.0)
    assert await scene.faults() == []
    assert sum("not acted on" in line for line in scene.node.said) == 1
    assert scene.node.life.phase is AgentPhase.RUNNING


async def test_a_defect_of_its_own_is_told_and_ends_only_the_detection(tmp_path: Path) -> None:
    scene = await watched(tmp_path)

    def broken(_handle: WorkerHandle) -> ProcessSample:
        raise RuntimeError("no /proc here")

    scene.machine.sample = broken  # type: ignore[method-assign]
    await asyncio.wait_for(scene.watch.run(), timeout=10)
    assert "hang detection has ended by a defect of its own" in scene.node.said[-1]


async def test_off_is_off(tmp_path: Path) -> None:
    scene = await watched(tmp_path, DetectionPolicy(mode=DetectionMode.OFF))
    await asyncio.wait_for(scene.watch.run(), timeout=10)
    assert scene.node.clock.at_s == 0.0
