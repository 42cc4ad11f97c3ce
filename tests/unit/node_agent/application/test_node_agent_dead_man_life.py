"""An agent without a planner: what it does by itself, what it tells, and that it is fit for the next start."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_fakes import Node, start, stop

from fault_contracts.agent import AgentPhase, AgentReported, WorkerExited, WorkersStarted, WorkersStopped
from fault_contracts.envelope import seal
from fault_contracts.lone_agent import AgentActedAlone
from node_agent.application.dead_man import DeadMan
from node_agent.application.report_agent import AgentReporter
from node_agent.domain.agent_state import AgentEvent
from node_agent.domain.dead_man import DeadManPolicy, PlannerLost
from service_kit.errors import BusUnavailable
from service_kit.ports import Delivery

pytestmark = pytest.mark.asyncio


class PlannerAway:
    """The question whether somebody leads: unanswered (None), or without a bus."""

    def __init__(self) -> None:
        self.leader: bytes | None = None
        self.cut_off = True
        self.asked: list[tuple[str, str]] = []

    async def ask(self, *, what: str, key: str, body: bytes = b"", timeout_s: float) -> bytes | None:
        self.asked.append((what, key))
        if self.cut_off:
            raise BusUnavailable("gone")
        return self.leader


def dead_man_of(node: Node, bus: PlannerAway, on_lost: PlannerLost = PlannerLost.KEEP) -> DeadMan:
    reporter = AgentReporter(node.life, bus, node.outgoing, node.port, node.clock, heartbeat_s=2.0)  # type: ignore[arg-type]
    return DeadMan(
        node.life,
        bus,  # type: ignore[arg-type]
        node.intake,
        node.stop,
        reporter,
        node.outgoing,
        node.clock,
        node,
        policy=DeadManPolicy(silence_s_max=60.0, on_lost=on_lost),
    )


async def look_after(node: Node, dead_man: DeadMan, *seconds: float) -> None:
    for at_s in seconds:
        node.clock.at_s = at_s
        await dead_man.look()


async def of(node: Node, kind: type) -> Sequence[Any]:
    return [report for report in await node.reports_from() if isinstance(report, kind)]


async def test_ranks_that_train_go_on_and_it_is_said_once(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), PlannerAway()
    await node.obey(start())
    await look_after(node, dead_man_of(node, bus), 30, 59, 61, 70, 500)
    assert node.life.phase is AgentPhase.RUNNING
    assert node.processes.stops == []
    [line] = [line for line in node.said if "no planner" in line]
    assert "61 s" in line
    assert "--on-planner-lost keep" in line


async def test_a_rank_is_dead_and_nobody_orders_the_stop(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), PlannerAway()
    await node.obey(start())
    dead_man = dead_man_of(node, bus)
    node.clock.at_s = 10
    node.processes.end(0, signal=9)
    await look_after(node, dead_man, 20, 59)
    assert node.processes.stops == [], "the limit has not passed"
    await look_after(node, dead_man, 60, 70, 80)
    assert node.processes.alive == {}
    assert len(node.processes.stops) == 1
    assert node.life.phase is AgentPhase.READY
    [story] = await of(node, AgentActedAlone)
    assert (story.topology_version, story.policy, story.silent_s) == (1, "keep", 60.0)
    assert [ended.local_rank for ended in story.exits] == [1]
    assert story.reason.rule_id == "dead_man.broken"
    assert len(await of(node, WorkerExited)) == 1, "what was stopped by us is in the story and no fault of its own"
    assert any("stopping them to free" in line for line in node.said)


async def test_the_planner_comes_back_hears_the_story_and_can_start_again(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), PlannerAway()
    await node.obey(start())
    dead_man = dead_man_of(node, bus)
    node.processes.end(0, signal=9)
    await look_after(node, dead_man, 61)
    bus.cut_off, bus.leader = False, b"planner/1"
    await look_after(node, dead_man, 75)
    assert any("the planner is back; meanwhile this node stopped its 2 ranks" in line for line in node.said)
    [report] = await of(node, AgentReported)
    assert report.phase is AgentPhase.READY
    assert isinstance((await node.obey(stop(valid_s=600)))[-1], WorkersStopped), "the incident's stop is answered"
    [told] = await node.obey(start(2, base_version=1, attempt=1, valid_s=600))
    assert isinstance(told, WorkersStarted)


async def test_with_stop_healthy_ranks_are_stopped_too(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), PlannerAway()
    await node.obey(start())
    await look_after(node, dead_man_of(node, bus, PlannerLost.STOP), 61)
    assert node.processes.alive == {}
    [story] = await of(node, AgentActedAlone)
    assert (story.policy, story.reason.rule_id) == ("stop", "dead_man.train")


async def test_a_bus_on_which_nobody_leads_is_silence_too(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), PlannerAway()
    bus.cut_off = False
    await node.obey(start())
    node.processes.end(0, signal=9)
    await look_after(node, dead_man_of(node, bus), 61)
    assert set(bus.asked) == {("planner", "leader")}
    assert node.processes.alive == {}


async def test_an_answer_or_a_command_is_a_sign_of_life(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), PlannerAway()
    await node.obey(start())
    dead_man = dead_man_of(node, bus, PlannerLost.STOP)
    bus.cut_off, bus.leader = False, b"planner/1"
    await look_after(node, dead_man, 50)
    bus.cut_off = True
    await look_after(node, dead_man, 109)
    assert node.processes.stops == [], "59 s since the answer"
    command = start(1, valid_s=600)
    envelope = seal(command, source="p", cause_id="again", time=node.clock.now())
    await node.intake.on_delivery(Delivery(envelope=envelope, subject="s", stream_sequence=9, deliveries=1))
    asked = len(bus.asked)
    await look_after(node, dead_man, 112)
    assert len(bus.asked) == asked, "a planner that was just heard is not asked"
    await look_after(node, dead_man, 168)
    assert node.processes.stops == [], "59 s since the command"
    await look_after(node, dead_man, 170)
    assert len(node.processes.stops) == 1


async def test_ranks_that_wait_at_the_barrier_are_freed(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), PlannerAway()
    await node.obey(start())
    node.life.in_process = True
    for event in (AgentEvent.STOP, AgentEvent.AT_BARRIER):
        node.life.advance(event)
    await look_after(node, dead_man_of(node, bus), 61)
    assert node.processes.alive == {}
    assert (node.life.phase, node.life.in_process) == (AgentPhase.READY, False)


async def test_a_command_that_is_being_carried_out_is_not_disturbed(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), PlannerAway()
    await node.obey(start())
    node.processes.end(0, signal=9)
    dead_man = dead_man_of(node, bus)
    node.clock.at_s = 61
    held, let_go = asyncio.Event(), asyncio.Event()

    async def command() -> None:
        held.set()
        await let_go.wait()
        node.life.planner_heard_s = node.clock.monotonic_s()

    carried_out = asyncio.create_task(node.intake.between_commands(command))
    await held.wait()
    looking = asyncio.create_task(dead_man.look())
    await asyncio.sleep(0)
    let_go.set()
    await asyncio.gather(carried_out, looking)
    assert node.processes.stops == [], "after it the planner is no longer silent"


async def test_an_idle_node_waits_and_starts_nothing(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), PlannerAway()
    await look_after(node, dead_man_of(node, bus, PlannerLost.STOP), 61, 200)
    assert (node.processes.specs, node.processes.stops) == ([], [])
    assert any("none are started without a planner" in line for line in node.said)
    assert await of(node, AgentActedAlone) == []
