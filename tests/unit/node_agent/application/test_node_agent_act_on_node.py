"""What the host role does with orders: once, one at a time, only what is permitted, and with an answer each."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fault_contracts.envelope import Envelope
from fault_contracts.health import Component
from fault_contracts.inventory import DeviceIdentity, DeviceKind
from fault_contracts.node_actions import ActionOutcome, NodeAction, NodeActionReported, OrderNodeAction
from fault_contracts.payload import Health, Reason
from node_agent.application.act_on_node import ActionPolicy, ActorIdentity, NodeActor
from node_agent.application.node_action_ports import ActionEntry, CommandEnd, Holder
from node_agent.application.reset_gpu import GpuReset, ResetLimits
from node_agent.domain.device_directory import Directory
from node_agent.domain.node_action_plan import ActionCommands, Quiesced
from node_agent.domain.observation import Observation
from service_kit.testing.virtual_clock import VirtualClock

GPU = DeviceIdentity(kind=DeviceKind.GPU, device_id="GPU-1", pci_bus_id="0000:3b:00", minor=0)


class Journal:
    """Remembers what a file would."""

    def __init__(self) -> None:
        self.entries: dict[str, ActionEntry] = {}

    def find(self, operation_id: str) -> ActionEntry | None:
        return self.entries.get(operation_id)

    def unfinished(self) -> Sequence[ActionEntry]:
        return [entry for entry in self.entries.values() if entry.outcome is None]

    def begin(self, entry: ActionEntry) -> None:
        assert entry.operation_id not in self.entries
        self.entries[entry.operation_id] = entry

    def finish(self, operation_id: str, outcome: bytes) -> None:
        self.entries[operation_id] = replace(self.entries[operation_id], outcome=outcome)


class Machine:
    """Commands end as the test says; those in `hang` end when it lets them."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.ends: dict[str, CommandEnd] = {}
        self.go = asyncio.Event()
        self.hang: set[str] = set()

    async def run(self, command: Sequence[str], *, limit_s: float) -> CommandEnd:
        text = " ".join(command)
        self.ran.append(text)
        if text in self.hang:
            await self.go.wait()
        return self.ends.get(text, CommandEnd(exit_code=0, output="fine"))


class Holders:
    """Who holds the GPU; one answer after the other, the last one stays."""

    def __init__(self) -> None:
        self.answers: list[list[Holder] | OSError] = [[]]

    async def of(self, device: DeviceIdentity) -> Sequence[Holder]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer


class Watch:
    """The agent's own look."""

    def __init__(self, clock: VirtualClock) -> None:
        self.calls: list[str] = []
        good = Observation(
            component=Component.GPU,
            component_id="GPU-1",
            check="gpu_lost",
            health=Health.OK,
            observed_at=clock.now(),
        )
        self.seen: Sequence[Observation] | None = [good]

    async def pause(self) -> None:
        self.calls.append("pause")

    async def resume(self) -> None:
        self.calls.append("resume")

    async def fresh(self, device: DeviceIdentity, *, limit_s: float) -> Sequence[Observation] | None:
        self.calls.append("fresh")
        return self.seen


class Outbox:
    """Keeps what would be sent."""

    def __init__(self) -> None:
        self.sent: list[NodeActionReported] = []
        self.ids: set[str] = set()

    async def put(self, envelope: Envelope[Any], *, urgent: bool = False) -> None:
        assert envelope.id not in self.ids, "a repeat must not look like a copy"
        self.ids.add(envelope.id)
        self.sent.append(envelope.data)


class Scene:
    """One host role's hand, and a second life of it on the same journal."""

    def __init__(self, *, boot_id: str = "boot-1", journal: Journal | None = None, allowed: str = "all") -> None:
        self.clock = VirtualClock()
        self.journal, self.machine, self.holders, self.outbox = journal or Journal(), Machine(), Holders(), Outbox()
        self.watch = Watch(self.clock)
        directory = Directory()
        directory.learn(GPU)
        dcgm = Quiesced(stop=("stop", "dcgm"), start=("start", "dcgm"), processes=("dcgm",))
        commands = {action: (action.value,) for action in NodeAction if action is not NodeAction.DRAIN}
        configured = ActionCommands(commands=commands, quiesce=(dcgm,))
        limits = ResetLimits(command_s=10.0, verify_s=90.0)
        actions = set(NodeAction) if allowed == "all" else {NodeAction.VALIDATE}
        self.actor = NodeActor(
            ActorIdentity(node_id="node-a", instance_id=f"life-{boot_id}", boot_id=boot_id),
            ActionPolicy(allowed=actions, validate_s=900.0, command_s=10.0, reboot_s=300.0),
            configured,
            self.journal,
            self.machine,
            GpuReset(configured, self.machine, self.holders, self.watch, limits),
            directory,
            self.outbox,
            self.clock,
            impossible=lambda: {NodeAction.DRAIN: "no command is set for it"},
        )

    def order(self, action: NodeAction = NodeAction.RESET_GPU, *, operation: str = "op-1", **fields: Any) -> Any:
        told: dict[str, Any] = {
            "node_id": "node-a",
            "operation_id": operation,
            "action": action,
            "gpu_uuid": "GPU-1",
            "asked_by": "alice",
            "reason": Reason(rule_id="t", sentence="a drill"),
            "expires_at": self.clock.now() + timedelta(seconds=30),
        }
        return OrderNodeAction(**(told | fields))

    async def take(self, order: OrderNodeAction, *, pushed: bool = True) -> NodeActionReported | None:
        """The newest answer once everything is quiet."""
        await self.actor.take(order, pushed=pushed)
        await self.clock.run_until_idle()
        return self.outbox.sent[-1] if self.outbox.sent else None

    async def outcome(self, order: OrderNodeAction) -> tuple[ActionOutcome, str]:
        report = await self.take(order)
        assert report is not None
        return report.outcome, report.reason.rule_id


@pytest.mark.asyncio
async def test_a_reset_stops_services_resets_starts_them_and_verifies() -> None:
    scene = Scene()
    scene.holders.answers = [[Holder(pid=7, name="dcgm")], []]
    assert await scene.outcome(scene.order()) == (ActionOutcome.DONE, "node_action.verified")
    assert scene.machine.ran == ["stop dcgm", "reset_gpu", "start dcgm"]
    assert scene.watch.calls == ["pause", "resume", "fresh"]


@pytest.mark.asyncio
async def test_a_gpu_that_somebody_uses_is_not_touched() -> None:
    scene = Scene()
    scene.holders.answers = [[Holder(pid=7, name="python")]]
    report = await scene.take(scene.order())
    assert report is not None
    assert (report.outcome, report.reason.rule_id) == (ActionOutcome.REFUSED, "node_action.gpu_held")
    assert "python (pid 7)" in report.reason.sentence
    assert scene.machine.ran == []
    assert scene.watch.calls == ["pause", "resume"]


@pytest.mark.asyncio
async def test_who_holds_it_is_unknown_then_nothing_is_touched() -> None:
    scene = Scene()
    scene.holders.answers = [OSError("not root")]
    assert await scene.outcome(scene.order()) == (ActionOutcome.REFUSED, "node_action.holders_unknown")
    assert scene.machine.ran == []


@pytest.mark.asyncio
async def test_services_are_started_again_whatever_goes_wrong() -> None:
    held_still = Scene()
    held_still.holders.answers = [[Holder(pid=7, name="dcgm")]]
    assert (await held_still.outcome(held_still.order()))[0] is ActionOutcome.FAILED
    assert held_still.machine.ran == ["stop dcgm", "start dcgm"]
    broken = Scene()
    broken.machine.ends["reset_gpu"] = CommandEnd(exit_code=3, output="not supported")
    report = await broken.take(broken.order())
    assert report is not None
    assert report.outcome is ActionOutcome.FAILED
    assert "not supported" in report.reason.sentence
    assert broken.machine.ran == ["stop dcgm", "reset_gpu", "start dcgm"]


@pytest.mark.asyncio
async def test_a_command_that_says_it_worked_is_not_a_gpu_that_works() -> None:
    unseen = Scene()
    unseen.watch.seen = None
    assert await unseen.outcome(unseen.order()) == (ActionOutcome.FAILED, "node_action.not_verified")
    bad = Scene()
    assert bad.watch.seen is not None
    bad.watch.seen = [replace(bad.watch.seen[0], health=Health.BAD, detail="fell off the bus")]
    assert await bad.outcome(bad.order()) == (ActionOutcome.FAILED, "node_action.still_bad")


@pytest.mark.asyncio
async def test_a_repeat_is_answered_and_not_done_again() -> None:
    scene = Scene()
    first = await scene.take(scene.order())
    again = await scene.take(scene.order())
    assert scene.machine.ran.count("reset_gpu") == 1
    assert (again, len(scene.outbox.sent)) == (first, 2)
    await scene.take(scene.order(), pushed=False)
    assert len(scene.outbox.sent) == 2


@pytest.mark.asyncio
async def test_one_action_at_a_time_and_the_second_is_told_so() -> None:
    scene = Scene()
    scene.machine.hang.add("validate")
    await scene.take(scene.order(NodeAction.VALIDATE))
    assert await scene.outcome(scene.order(operation="op-2")) == (ActionOutcome.REFUSED, "node_action.busy")
    scene.machine.go.set()
    await scene.clock.run_until_idle()
    assert scene.outbox.sent[-1].operation_id == "op-1"
    assert (await scene.outcome(scene.order(operation="op-3")))[0] is ActionOutcome.DONE


@pytest.mark.asyncio
async def test_a_dry_run_shows_and_does_nothing() -> None:
    scene = Scene(allowed="validate")
    report = await scene.take(scene.order(dry_run=True))
    assert report is not None
    assert report.outcome is ActionOutcome.DRY_RUN
    assert report.commands == ("stop dcgm", "reset_gpu", "start dcgm")
    assert scene.machine.ran == []


@pytest.mark.asyncio
async def test_a_dry_run_that_is_found_again_is_no_news_and_one_that_was_missed_is() -> None:
    scene = Scene()
    order = scene.order(dry_run=True)
    missed = await scene.take(order, pushed=False)
    assert missed is not None
    assert missed.outcome is ActionOutcome.DRY_RUN
    await scene.take(order, pushed=False)
    assert len(scene.outbox.sent) == 1
    await scene.take(order, pushed=True)
    assert len(scene.outbox.sent) == 2


@pytest.mark.asyncio
async def test_what_is_not_permitted_or_not_possible_is_refused() -> None:
    scene = Scene(allowed="validate")
    assert await scene.outcome(scene.order()) == (ActionOutcome.REFUSED, "node_action.not_allowed")
    assert (await scene.outcome(scene.order(NodeAction.DRAIN)))[1] == "node_action.not_possible"
    assert scene.machine.ran == []


@pytest.mark.asyncio
async def test_an_old_order_found_later_is_no_news() -> None:
    scene = Scene()
    order = scene.order(expires_at=scene.clock.now())
    assert await scene.take(order, pushed=False) is None
    assert (await scene.outcome(order))[1] == "node_action.expired"


@pytest.mark.asyncio
async def test_a_validation_tells_its_verdict() -> None:
    scene = Scene()
    output = '{"verdict": "fail", "rule_id": "validation.bad_check", "reason": "rank 2 lies"}'
    scene.machine.ends["validate"] = CommandEnd(exit_code=1, output=output)
    report = await scene.take(scene.order(NodeAction.VALIDATE))
    assert report is not None
    assert (report.outcome, report.reason.sentence) == (ActionOutcome.FAILED, "fail: rank 2 lies")
    silent = Scene()
    assert (await silent.outcome(silent.order(NodeAction.VALIDATE)))[1] == "validation.no_report"


@pytest.mark.asyncio
async def test_a_reboot_is_done_when_the_machine_is_in_another_boot() -> None:
    before = Scene(boot_id="boot-1")
    await before.take(before.order(NodeAction.REBOOT))
    assert before.outbox.sent == []
    await before.actor.close()
    after = Scene(boot_id="boot-2", journal=before.journal)
    await after.actor.settle()
    [report] = after.outbox.sent
    assert (report.outcome, report.reason.rule_id) == (ActionOutcome.DONE, "node_action.rebooted")
    await after.take(after.order(NodeAction.REBOOT))
    assert after.machine.ran == []


@pytest.mark.asyncio
async def test_a_machine_that_stays_up_did_not_reboot() -> None:
    scene = Scene()
    await scene.take(scene.order(NodeAction.REBOOT))
    await scene.clock.advance(301.0)
    assert scene.outbox.sent[-1].reason.rule_id == "node_action.still_up"


@pytest.mark.asyncio
async def test_what_an_ended_agent_left_is_told_as_failed() -> None:
    before = Scene()
    before.machine.hang.add("validate")
    await before.take(before.order(NodeAction.VALIDATE))
    await before.actor.close()
    after = Scene(journal=before.journal)
    await after.actor.settle()
    [report] = after.outbox.sent
    assert (report.outcome, report.reason.rule_id) == (ActionOutcome.FAILED, "node_action.interrupted")
    assert after.journal.unfinished() == []
