"""A node of two ranks as hang detection sees it, two of them in a gang, and time that moves by looks."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_fakes import Node, start

from fault_contracts.agent import AgentPhase
from fault_contracts.envelope import Envelope
from fault_contracts.rank_faults import RanksFaulted, StallSeen
from node_agent.application.ports import WorkerHandle
from node_agent.application.progress_ports import ProcessSample
from node_agent.application.share_stalls import StallExchange
from node_agent.application.take_looks import LookTaker
from node_agent.application.watch_progress import HangWatch
from node_agent.application.watch_states import POLL_S, StateBoard
from node_agent.domain.hang_policies import DetectionPolicy
from node_agent.domain.rank_evidence import ProcessState
from node_agent.domain.rank_looks import ProcessUsage
from service_kit.errors import BusUnavailable
from service_kit.ports import Delivery
from training_topology.identity import Rank
from worker_link.messages import Step

sys.path.insert(0, str(Path(__file__).parents[1] / "domain"))
import stack_dumps

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
