"""Hang detection over one node: what begins an inquiry, what ends in a report, and what must not."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_fakes import Node, start, stop

from fault_contracts.agent import AgentPhase, WorkersCompleted
from fault_contracts.envelope import Envelope
from fault_contracts.rank_faults import RanksFaulted, StallSeen
from node_agent.application.ports import WorkerHandle
from node_agent.application.progress_ports import ProcessSample
from node_agent.application.share_stalls import StallExchange
from node_agent.application.take_looks import LookTaker
from node_agent.application.watch_progress import HangWatch
from node_agent.application.watch_states import POLL_S, StateBoard
from node_agent.domain.hang_policies import DetectionMode, DetectionPolicy
from node_agent.domain.rank_evidence import ProcessState
from node_agent.domain.rank_looks import ProcessUsage
from service_kit.errors import BusUnavailable
from service_kit.ports import Delivery
from training_topology.identity import Rank
from worker_link.messages import Step
from worker_link.phase_messages import PhaseBegun, PhaseDone

sys.path.insert(0, str(Path(__file__).parents[1] / "domain"))
import stack_dumps

pytestmark = pytest.mark.asyncio
STEP_S = 0.05


class FakeMachine:
    """Both ranks as the kernel and faulthandler would show them."""

    def __init__(self) -> None:
        self.states: dict[int, ProcessState] = {}
        self.cpu_s: dict[int, float] = {0: 0.0, 1: 0.0}
        self.busy: set[int] = {0, 1}
        self.stacks: dict[int, str] = {0: stack_dumps.ALL_REDUCE, 1: stack_dumps.ALL_REDUCE}
        self.asked: list[list[int]] = []

    def renumber(self, *, first: int) -> None:
        """The ranks of another node."""
        self.cpu_s = {rank + first: value for rank, value in self.cpu_s.items()}
        self.stacks = {rank + first: text for rank, text in self.stacks.items()}
        self.busy = {rank + first for rank in self.busy}

    def sample(self, handle: WorkerHandle) -> ProcessSample | None:
        state = self.states.get(handle.rank, ProcessState.SLEEPING)
        return ProcessSample(state=state, cpu_s=self.cpu_s[handle.rank])

    def usage(self, handle: WorkerHandle) -> ProcessUsage | None:
        return ProcessUsage(cpu_s=self.cpu_s[handle.rank])

    async def take(self, handles: Sequence[WorkerHandle], *, wait_s: float) -> Mapping[Rank, str]:
        self.asked.append([handle.rank for handle in handles])
        return {handle.rank: self.stacks[handle.rank] for handle in handles if handle.rank in self.stacks}

    def stderr_tail(self, rank: Rank) -> tuple[str, ...]:
        return (f"WorkNCCL(SeqNum=7, OpType=ALLREDUCE) on {rank}",)


class Watched:
    """A node of two ranks, alone in its gang, with time that moves by looks."""

    def __init__(self, node: Node, policy: DetectionPolicy) -> None:
        self.node = node
        self.machine = FakeMachine()
        board = StateBoard(self.machine)
        looks = LookTaker(reader=self.machine, stacks=self.machine, board=board, lines=self.machine, clock=node.clock)
        self.stalls = StallExchange(node.life, node.outgoing, node.clock)
        self.watch = HangWatch(node.life, node.faults, board, looks, node.clock, node, policy, self.stalls)
        node.relay.on_advance, node.relay.on_declared = self.watch.on_step, self.watch.on_phase
        self.steps = 0

    async def pass_time(self, duration_s: float) -> None:
        """Look as often as the loop would."""
        for _ in range(round(duration_s / POLL_S)):
            self.node.clock.at_s += POLL_S
            for rank in self.machine.busy:
                self.machine.cpu_s[rank] += POLL_S
            self.watch.look()
            for _ in range(5):
                await asyncio.sleep(0)

    async def train(self, steps: int) -> None:
        for _ in range(steps):
            self.steps += 1
            self.node.clock.at_s += STEP_S
            for handle in self.node.life.handles:
                self.node.relay.on_step(handle, Step(step=self.steps, at_monotonic_s=0.0))
            if self.steps % 5 == 0:
                self.watch.look()
        await asyncio.sleep(0)

    async def faults(self) -> list[RanksFaulted]:
        await self.node.faults.drain()
        return [report for report in await self.node.reports_from() if isinstance(report, RanksFaulted)]


class FakeBus:
    """Core NATS between two agents: whoever listens hears what is published, the sender too."""

    def __init__(self) -> None:
        self.handlers: list[Callable[[Delivery], Awaitable[None]]] = []
        self.published: list[StallSeen] = []
        self.away = False

    async def publish(self, envelope: Envelope[Any], *, epoch: int | None = None) -> int:
        if self.away:
            raise BusUnavailable("away")
        self.published.append(envelope.data)
        for handler in self.handlers:
            await handler(Delivery(envelope=envelope, subject="s", stream_sequence=None, deliveries=1))
        return 0

    async def listen(self, *, messages: object, handler: Any, key: str | None = None) -> FakeBus:
        if self.away:
            raise BusUnavailable("away")
        self.handlers.append(handler)
        return self

    async def stop(self) -> None:
        self.handlers.clear()


class Gang:
    """Two nodes of two ranks that look in turn."""

    def __init__(self, nodes: list[Watched], bus: FakeBus) -> None:
        self.nodes, self.bus = nodes, bus

    async def pass_time(self, duration_s: float) -> None:
        for _ in range(round(duration_s / POLL_S)):
            for scene in self.nodes:
                await scene.pass_time(POLL_S)

    async def faults(self) -> list[list[tuple[str, list[int]]]]:
        return [
            [(fault.rule_id, [suspect.rank for suspect in fault.suspects]) for fault in await scene.faults()]
            for scene in self.nodes
        ]


async def gang(tmp_path: Path) -> Gang:
    bus, nodes = FakeBus(), []
    for name in ("n0", "n1"):
        (tmp_path / name).mkdir()
        scene = Watched(Node(tmp_path / name, node_id=name), DetectionPolicy())
        scene.stalls.attach(bus)  # type: ignore[arg-type]
        await scene.node.obey(start(1))
        scene.machine.renumber(first=2 if name == "n1" else 0)
        await scene.train(100)
        scene.machine.busy = set()
        nodes.append(scene)
    return Gang(nodes, bus)


async def watched(tmp_path: Path, policy: DetectionPolicy | None = None, *, world_size: int = 2) -> Watched:
    node = Node(tmp_path)
    scene = Watched(node, policy or DetectionPolicy())
    await node.obey(start(1).model_copy(update={"world_size": world_size}))
    assert node.life.phase is AgentPhase.RUNNING
    return scene


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


async def test_over_nodes_the_idle_ranks_are_told_by_their_own_node_and_by_no_other(tmp_path: Path) -> None:
    both = await gang(tmp_path)
    both.nodes[1].machine.stacks = {2: stack_dumps.SLEEP, 3: stack_dumps.SLEEP}
    await both.pass_time(10.0)
    assert await both.faults() == [[], []]
    await both.pass_time(15.0)
    assert await both.faults() == [[], [("hang_outside", [2, 3])]]
    assert len(both.bus.published) < 20, "a message a round and node"


async def test_a_gang_that_sits_in_one_collective_is_told_by_the_first_node(tmp_path: Path) -> None:
    both = await gang(tmp_path)
    await both.pass_time(55.0)
    assert await both.faults() == [[], []]
    assert len(both.bus.handlers) == 1, "a node whose ranks all wait has nobody to ask"
    await both.pass_time(15.0)
    assert await both.faults() == [[("hang_collective", [])], []]


async def test_ranks_in_another_collective_are_named_by_the_first_node(tmp_path: Path) -> None:
    both = await gang(tmp_path)
    both.nodes[1].machine.stacks[3] = stack_dumps.BARRIER
    await both.pass_time(70.0)
    (first, second) = await both.faults()
    assert (first, second) == ([("hang_mismatch", [])], [])
    assert "rank 3 in another collective" in both.nodes[0].node.said[-2]


async def test_what_another_generation_says_or_said_long_ago_does_not_count(tmp_path: Path) -> None:
    both = await gang(tmp_path)
    both.nodes[1].machine.stacks = {2: stack_dumps.SLEEP, 3: stack_dumps.SLEEP}
    await both.pass_time(10.0)
    assert set(both.nodes[1].stalls.others(1)) == {0, 1}
    assert both.nodes[1].stalls.others(2) == {}
    both.nodes[1].node.clock.at_s += 60.0
    assert both.nodes[1].stalls.others(1) == {}


async def test_without_the_bus_each_node_judges_alone(tmp_path: Path) -> None:
    both = await gang(tmp_path)
    both.bus.away = True
    both.nodes[1].machine.stacks[3] = stack_dumps.SLEEP
    await both.pass_time(20.0)
    assert await both.faults() == [[], [("hang_outside", [3])]]
