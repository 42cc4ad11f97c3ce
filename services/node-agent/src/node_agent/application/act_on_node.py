"""Carry out what is ordered of this machine: once, one at a time, and with an answer to every order.

The journal knows what began here: a repeat is answered with the stored outcome, and what an earlier life of the agent
left unfinished is told when this one begins; a reboot has succeeded when the machine is in another boot.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from pydantic import ValidationError

from fault_contracts.envelope import seal
from fault_contracts.inventory import DeviceIdentity, DeviceKind
from fault_contracts.node_actions import ActionOutcome, NodeAction, NodeActionReported, OrderNodeAction
from fault_contracts.payload import LONG_TEXT_MAX, Reason
from node_agent.application.collector_ports import DeviceDirectory
from node_agent.application.control_ports import EventOutbox
from node_agent.application.node_action_ports import ActionEntry, ActionJournal, CommandEnd, MachineCommands
from node_agent.application.reset_gpu import ActionResult, GpuReset
from node_agent.domain.node_action import ActionRuling, NodeFacts, judge_action
from node_agent.domain.node_action_plan import ActionCommands, filled, shown, steps_of
from service_kit.errors import TransientError
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock, Delivery

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActorIdentity:
    """Who acts: node, this life of the agent, this boot of the machine."""

    node_id: str
    instance_id: str
    boot_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionPolicy:
    """What the operator permits, and the deadlines."""

    allowed: Collection[NodeAction]
    validate_s: float
    command_s: float
    reboot_s: float
    """After the command: a machine that is still up then did not reboot."""


class NodeActor:
    """The host role's hand. `impossible` says what cannot be done here, and why."""

    def __init__(
        self,
        identity: ActorIdentity,
        policy: ActionPolicy,
        configured: ActionCommands,
        journal: ActionJournal,
        machine: MachineCommands,
        reset: GpuReset,
        directory: DeviceDirectory,
        outbox: EventOutbox,
        clock: Clock,
        *,
        impossible: Callable[[], Mapping[NodeAction, str]],
    ) -> None:
        self._identity = identity
        self._policy = policy
        self._configured = configured
        self._journal = journal
        self._machine = machine
        self._reset = reset
        self._directory = directory
        self._outbox = outbox
        self._clock = clock
        self._impossible = impossible
        self._busy_with = ""
        self._shown_last = ""
        """Operation of the newest dry run: it is not in the journal, and a look at the stored order finds it again."""
        self._at_work: set[asyncio.Task[None]] = set()
        self._numbers = count()

    async def settle(self) -> None:
        """Tell how the operations ended that an earlier life began. Called once, before anything is heard."""
        for entry in self._journal.unfinished():
            try:
                order = OrderNodeAction.model_validate_json(entry.order)
            except ValidationError as error:
                log.error("order_unreadable", operation_id=entry.operation_id, error=str(error))
                self._journal.finish(entry.operation_id, b"")
                continue
            await self._answer(order, _after_the_end(order, entry, self._identity.boot_id))

    async def catch_up(self, bus: Bus) -> None:
        """Take the newest stored order; what was pushed while this agent was not connected is in it."""
        try:
            found = await bus.last_commands(key=self._identity.node_id, messages=[OrderNodeAction])
        except TransientError as error:
            log.debug("no_catch_up", error=str(error))  # the next reconnect brings the next one
            return
        for delivery in found:
            await self.take(delivery.envelope.data, pushed=False)

    async def forever(self, bus: Bus, *, interval_s: float) -> None:
        """A look at the newest stored order every so often, until cancelled: a push can be lost."""
        while True:
            await self.catch_up(bus)
            await self._clock.sleep(interval_s)

    async def on_delivery(self, delivery: Delivery) -> None:
        """A pushed order. Returns when it is judged; a long action goes on beside."""
        await self.take(delivery.envelope.data, pushed=True)

    async def take(self, order: OrderNodeAction, *, pushed: bool) -> None:
        """Judge an order, then refuse, show, or begin.

        Args:
            order: may be for another node, boot or life; the fence says so.
            pushed: False for a catch-up, which finds old orders again and again: what is done or over is no news.
        """
        known = self._journal.find(order.operation_id)
        if known is not None:
            if pushed and known.outcome:
                await self._send(NodeActionReported.model_validate_json(known.outcome))
            return  # without an outcome it is under way, and its answer will come
        judgement = judge_action(order, self._facts(), now=self._clock.now())
        log.info("order_judged", operation_id=order.operation_id, action=order.action, ruling=judgement.ruling)
        device = self._device(order)
        match judgement.ruling:
            case ActionRuling.REFUSE:
                if pushed:
                    await self._send(self._report(order, _plain(ActionOutcome.REFUSED, judgement.reason)))
            case ActionRuling.SHOW:
                if order.operation_id == self._shown_last and not pushed:
                    return
                self._shown_last = order.operation_id
                result = _plain(ActionOutcome.DRY_RUN, judgement.reason)
                result.commands += [shown(step) for step in steps_of(self._configured, order, device)]
                await self._send(self._report(order, result))
            case ActionRuling.RUN:
                self._begin(order, device)

    def _begin(self, order: OrderNodeAction, device: DeviceIdentity | None) -> None:
        me = self._identity
        entry = ActionEntry(
            operation_id=order.operation_id,
            boot_id=me.boot_id,
            instance_id=me.instance_id,
            order=order.model_dump_json().encode(),
            outcome=None,
        )
        self._journal.begin(entry)
        self._busy_with = order.operation_id
        task = asyncio.create_task(self._act(order, device), name=f"node action {order.operation_id}")
        self._at_work.add(task)
        task.add_done_callback(self._at_work.discard)

    async def close(self) -> None:
        """Give up what is under way: the next life tells that it did not end."""
        for task in list(self._at_work):
            task.cancel()
        await asyncio.gather(*self._at_work, return_exceptions=True)

    async def _act(self, order: OrderNodeAction, device: DeviceIdentity | None) -> None:
        try:
            result = await self._carry_out(order, device)
        except Exception as error:
            log.exception("action_failed", operation_id=order.operation_id)
            sentence = f"the agent failed in the middle: {type(error).__name__}: {error}"[:2_000]
            result = _plain(ActionOutcome.FAILED, Reason(rule_id="node_action.agent_failed", sentence=sentence))
        finally:
            self._busy_with = ""
        await self._answer(order, result)

    async def _carry_out(self, order: OrderNodeAction, device: DeviceIdentity | None) -> ActionResult:
        match order.action:
            case NodeAction.RESET_GPU:
                assert device is not None, "the fence refuses a GPU that the directory does not know"
                return await self._reset.carry_out(order, device)
            case NodeAction.VALIDATE:
                end, result = await self._run(order, self._policy.validate_s)
                result.reason = _validated(end)
                return result
            case NodeAction.DRAIN:
                return (await self._run(order, self._policy.command_s))[1]
            case NodeAction.REBOOT:
                end, result = await self._run(order, self._policy.command_s)
                if end.succeeded:
                    await self._clock.sleep(self._policy.reboot_s)
                    sentence = f"the machine is still up {self._policy.reboot_s:g} s after its reboot was asked for"
                    result.outcome = ActionOutcome.FAILED
                    result.reason = Reason(rule_id="node_action.still_up", sentence=sentence)
                return result

    async def _run(self, order: OrderNodeAction, limit_s: float) -> tuple[CommandEnd, ActionResult]:
        command = filled(self._configured.commands[order.action], order, None)
        end = await self._machine.run(command, limit_s=limit_s)
        ended = "succeeded" if end.succeeded else end.problem or f"ended with exit code {end.exit_code}"
        result = _plain(
            ActionOutcome.DONE if end.succeeded else ActionOutcome.FAILED,
            Reason(rule_id="node_action.command", sentence=f"{shown(command)} {ended}"[:2_000]),
        )
        result.commands.append(shown(command))
        result.output = end.output[-LONG_TEXT_MAX:]
        return end, result

    def _facts(self) -> NodeFacts:
        me = self._identity
        return NodeFacts(
            node_id=me.node_id,
            instance_id=me.instance_id,
            boot_id=me.boot_id,
            allowed=self._policy.allowed,
            impossible=self._impossible(),
            gpu_uuids={device.device_id for device in self._directory.all() if device.kind is DeviceKind.GPU},
            busy_with=self._busy_with,
        )

    def _device(self, order: OrderNodeAction) -> DeviceIdentity | None:
        return next((device for device in self._directory.all() if device.device_id == order.gpu_uuid), None)

    async def _answer(self, order: OrderNodeAction, result: ActionResult) -> None:
        """Journal first: an answer that was told must be the answer to every repeat."""
        report = self._report(order, result)
        self._journal.finish(order.operation_id, report.model_dump_json().encode())
        log.info("action_ended", operation_id=order.operation_id, action=order.action, outcome=result.outcome)
        await self._send(report)

    def _report(self, order: OrderNodeAction, result: ActionResult) -> NodeActionReported:
        me = self._identity
        return NodeActionReported(
            node_id=me.node_id,
            instance_id=me.instance_id,
            operation_id=order.operation_id,
            action=order.action,
            outcome=result.outcome,
            gpu_uuid=order.gpu_uuid,
            reason=result.reason,
            commands=tuple(result.commands[:64]),
            output=result.output[-LONG_TEXT_MAX:],
            boot_id=me.boot_id,
            finished_at=self._clock.now(),
        )

    async def _send(self, report: NodeActionReported) -> None:
        envelope = seal(
            report,
            source=f"node-agent/{self._identity.node_id}",
            cause_id=report.operation_id,
            ordinal=f"{self._identity.instance_id}-{next(self._numbers)}",
            time=self._clock.now(),
            correlation_id=report.operation_id,
        )
        await self._outbox.put(envelope, urgent=True)


def _plain(outcome: ActionOutcome, reason: Reason) -> ActionResult:
    return ActionResult(outcome=outcome, reason=reason)


def _validated(end: CommandEnd) -> Reason:
    """The verdict that the validation printed; it is a process of its own, so it may have printed anything."""
    try:
        told: Mapping[str, Any] = json.loads(end.output)
        sentence = f"{told['verdict']}: {told['reason']}"[:2_000]
        return Reason(rule_id=str(told["rule_id"])[:256] or "validation.unknown", sentence=sentence)
    except (ValueError, KeyError, TypeError):
        what = end.problem or f"exit code {end.exit_code}"
        return Reason(rule_id="validation.no_report", sentence=f"the validation ended without a report: {what}")


def _after_the_end(order: OrderNodeAction, entry: ActionEntry, boot_id: str) -> ActionResult:
    rebooted = bool(boot_id) and bool(entry.boot_id) and boot_id != entry.boot_id
    if order.action is NodeAction.REBOOT and rebooted:
        sentence = f"the machine rebooted: boot {entry.boot_id} is over, this is {boot_id}"
        return _plain(ActionOutcome.DONE, Reason(rule_id="node_action.rebooted", sentence=sentence))
    how = "the machine went down" if rebooted else "the agent ended"
    sentence = f"{how} while {order.action.value} was under way; how far it came is unknown"
    return _plain(ActionOutcome.FAILED, Reason(rule_id="node_action.interrupted", sentence=sentence))
