"""Being there and leaving: report, heartbeat, ping, admission, catch-up, signals."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Any

import pytest
from agent_fakes import T0, CountingPort, Node, end, start, stop

from fault_contracts.agent import AgentHeartbeat, AgentLeft, AgentPhase, AgentReported
from fault_contracts.envelope import Envelope, seal
from node_agent.application.attend_job import JobAttendance
from node_agent.application.catch_up import CatchUp
from node_agent.application.report_agent import AgentReporter
from service_kit.errors import BusUnavailable
from service_kit.ports import Delivery

pytestmark = pytest.mark.asyncio


class Quiet:
    async def stop(self) -> None:
        return


class FakeBus:
    """Answers as told; raises whatever `down` says."""

    def __init__(self) -> None:
        self.down: BusUnavailable | None = None
        self.admission: bytes | None = None
        self.stored: list[Any] = []
        self.first_sequence = 1
        self.ordered_after_report: list[Any] = []
        self.published: list[Envelope[Any]] = []
        self.looks = 0

    async def publish(self, envelope: Envelope[Any], *, epoch: int | None = None) -> int:
        if self.down:
            raise self.down
        self.published.append(envelope)
        return 0

    async def ask(self, *, what: str, key: str, body: bytes = b"", timeout_s: float) -> bytes | None:
        if self.down:
            raise self.down
        return self.admission

    async def last_commands(self, *, key: str, messages: Sequence[type]) -> list[Delivery]:
        self.looks += 1
        if self.looks > 1:
            self.stored = self.stored or self.ordered_after_report
        if self.down:
            raise self.down
        return [
            Delivery(
                envelope=seal(command, source="p", cause_id=command.operation_id, time=T0),
                subject="s",
                stream_sequence=self.first_sequence,
                deliveries=1,
            )
            for command in self.stored
        ]

    async def listen(self, **_: Any) -> Quiet:
        return Quiet()

    async def answer(self, **_: Any) -> Quiet:
        return Quiet()


def reporter_of(node: Node, bus: FakeBus) -> AgentReporter:
    return AgentReporter(node.life, bus, node.outgoing, node.port, node.clock, heartbeat_s=2.0)  # type: ignore[arg-type]


def attendance_of(node: Node, bus: FakeBus, connected: bool = True) -> JobAttendance:
    catch_up = CatchUp(node.life, bus, node.intake, node.clock, interval_s=5.0)  # type: ignore[arg-type]
    return JobAttendance(
        node.life,
        bus,  # type: ignore[arg-type]
        node.intake,
        catch_up,
        reporter_of(node, bus),
        node.clock,
        node,
        is_connected=lambda: connected,
    )


async def test_the_report_says_who_and_where(tmp_path: Path) -> None:
    node = Node(tmp_path)
    reporter_of(node, FakeBus()).report()
    [told] = await node.reports_from()
    assert isinstance(told, AgentReported)
    assert (told.phase, told.topology_version, told.master_port) == (AgentPhase.READY, 0, CountingPort().number)
    assert (told.address, told.spec.nproc_per_node) == ("10.0.0.1", 2)


async def test_a_ping_is_answered_with_the_present_state(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    answer = json.loads(await reporter_of(node, FakeBus()).answer_ping(b""))
    assert answer == {"instance_id": "life-1", "phase": "running", "topology_version": 1}


async def test_a_heartbeat_without_a_bus_is_no_failure(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), FakeBus()
    bus.down = BusUnavailable("gone")
    await reporter_of(node, bus).beat()
    bus.down = None
    await reporter_of(node, bus).beat()
    [beat] = bus.published
    assert isinstance(beat.data, AgentHeartbeat)


@pytest.mark.parametrize(
    ("answer", "admitted"),
    [
        (b'{"admitted": true, "reason": ""}', True),
        (b'{"admitted": false, "reason": "another spec"}', False),
        (None, None),
        (b"[]", None),
        (b"nonsense", None),
    ],
)
async def test_admission_is_yes_no_or_unknown(tmp_path: Path, answer: bytes | None, admitted: bool | None) -> None:
    bus = FakeBus()
    bus.admission = answer
    assert (await reporter_of(Node(tmp_path), bus).ask_admission()).admitted is admitted


async def test_a_catch_up_handles_the_newest_only_and_once(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), FakeBus()
    catch_up = CatchUp(node.life, bus, node.intake, node.clock, interval_s=5.0)  # type: ignore[arg-type]
    bus.stored = [start(), stop(), start(2, attempt=1)]
    await catch_up.once()
    await catch_up.once()
    assert node.life.topology_version == 2
    assert len(node.processes.specs) == 2
    assert node.processes.stops == []


async def test_the_end_of_the_last_run_of_this_job_id_does_not_end_the_new_one(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), FakeBus()
    catch_up = CatchUp(node.life, bus, node.intake, node.clock, interval_s=5.0)  # type: ignore[arg-type]
    bus.stored = [end()]
    await catch_up.mark_past()
    await catch_up.once()
    assert not node.life.ended.is_set()
    bus.stored, bus.first_sequence = [start(2)], 2
    await catch_up.once()
    assert node.life.topology_version == 2


async def test_a_catch_up_within_one_version_prefers_the_stop(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), FakeBus()
    catch_up = CatchUp(node.life, bus, node.intake, node.clock, interval_s=5.0)  # type: ignore[arg-type]
    bus.stored = [stop(), start()]
    await catch_up.once()
    assert node.processes.specs == []
    assert len(node.processes.stops) == 1


async def test_a_catch_up_without_a_bus_is_tried_again_later(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), FakeBus()
    bus.down = BusUnavailable("gone")
    catch_up = CatchUp(node.life, bus, node.intake, node.clock, interval_s=5.0)  # type: ignore[arg-type]
    assert not await catch_up.once()
    bus.down = None
    bus.stored = [start()]
    assert await catch_up.once()
    assert len(node.processes.specs) == 2


async def test_attending_from_the_first_report_to_the_end_of_the_job(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), FakeBus()
    node.life.phase = AgentPhase.INIT
    bus.ordered_after_report = [end()]
    assert await attendance_of(node, bus).attend() == 0
    reports = await node.reports_from()
    assert isinstance(reports[0], AgentReported)
    assert isinstance(reports[-1], AgentLeft)
    assert "job ended" in reports[-1].reason


async def test_an_agent_that_is_not_admitted_leaves_with_the_reason(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), FakeBus()
    node.life.phase = AgentPhase.INIT
    bus.admission = b'{"admitted": false, "reason": "nproc_per_node is 4 elsewhere"}'
    assert await attendance_of(node, bus).attend() == 78
    assert any("nproc_per_node is 4 elsewhere" in line for line in node.said)


async def test_a_reconnect_reports_again_and_looks_for_commands(tmp_path: Path) -> None:
    node, bus = Node(tmp_path), FakeBus()
    await attendance_of(node, bus).on_reconnected()
    assert isinstance((await node.reports_from())[0], AgentReported)
    assert bus.looks == 1


async def test_a_signal_stops_gracefully_and_gives_the_shells_exit_code(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    node.leave.on_signal(SIGTERM)
    await node.life.ended.wait()
    assert node.processes.stops == [((1_001, 1_002), 30.0)]
    assert node.life.exit_code == 143
    assert node.life.phase is AgentPhase.SHUTDOWN


async def test_a_second_signal_does_not_wait(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.obey(start())
    node.leave.on_signal(SIGINT)
    node.leave.on_signal(SIGINT)
    node.leave.on_signal(SIGINT)
    await node.life.ended.wait()
    await asyncio.sleep(0)
    assert ((1_001, 1_002), 0.0) in node.processes.stops or not node.processes.alive
    assert node.life.exit_code == 130
    assert len([line for line in node.said if "again" in line]) == 1


async def test_a_signal_during_a_start_gives_the_start_up(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.processes.hold = asyncio.Event()
    starting = asyncio.create_task(node.obey(start()))
    await asyncio.sleep(0.01)
    node.leave.on_signal(SIGTERM)
    async with asyncio.timeout(5):
        assert await starting == []
    assert node.processes.alive == {}
    assert node.life.exit_code == 143
