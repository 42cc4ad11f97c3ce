"""Reset one GPU: nobody may hold it, services that may be stopped are, and what comes back must be well.

Source: nvidia-smi(1), --gpu-reset: no application may use the device, and the reset of a GPU that shares NVLink with
others may need them all; the command that is run is the operator's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fault_contracts.inventory import DeviceIdentity
from fault_contracts.node_actions import ActionOutcome, NodeAction, OrderNodeAction
from fault_contracts.payload import Health, Reason
from node_agent.application.node_action_ports import CommandEnd, DeviceHolders, Holder, MachineCommands, OwnWatch
from node_agent.domain.node_action_plan import ActionCommands, Command, Quiesced, filled, shown

HOLDERS_NAMED_MAX = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetLimits:
    """Deadlines. `verify_s` holds a sweep of the host role."""

    command_s: float
    verify_s: float


@dataclass(slots=True, kw_only=True)
class ActionResult:
    """What came of an action, gathered while it runs."""

    outcome: ActionOutcome
    reason: Reason
    commands: list[str] = field(default_factory=list)
    output: str = ""


class GpuReset:
    """One reset at a time; the caller sees to that."""

    def __init__(
        self,
        configured: ActionCommands,
        machine: MachineCommands,
        holders: DeviceHolders,
        watch: OwnWatch,
        limits: ResetLimits,
    ) -> None:
        self._configured = configured
        self._machine = machine
        self._holders = holders
        self._watch = watch
        self._limits = limits

    async def carry_out(self, order: OrderNodeAction, device: DeviceIdentity) -> ActionResult:
        """Refuse, or stop, reset, start again, verify."""
        if not device.pci_bus_id:
            return _refused("node_action.no_address", f"the PCI address of {order.gpu_uuid} is not known")
        try:
            await self._watch.pause()
            result = await self._reset(order, device)
        except TimeoutError:
            return _refused("node_action.own_watch", "this agent's own look at the GPUs does not let go; driver stuck?")
        finally:
            await self._watch.resume()
        if result.outcome is not ActionOutcome.DONE:
            return result
        return await self._verify(order, device, result)

    async def _reset(self, order: OrderNodeAction, device: DeviceIdentity) -> ActionResult:
        free = {name for quiesced in self._configured.quiesce for name in quiesced.processes}
        try:
            strangers = [holder for holder in await self._holders.of(device) if holder.name not in free]
        except OSError as error:
            return _refused("node_action.holders_unknown", f"who holds {order.gpu_uuid} cannot be told: {error}")
        if strangers:
            return _refused(
                "node_action.gpu_held", f"{order.gpu_uuid} is held by {_named(strangers)}; nothing was touched"
            )
        result = ActionResult(outcome=ActionOutcome.DONE, reason=Reason(rule_id="node_action.reset", sentence="reset"))
        stopped: list[Quiesced] = []
        try:
            problem = await self._quiesce(stopped, result) or await self._run_reset(order, device, result)
        finally:
            unstarted = await self._start_again(stopped, result)
        if problem or unstarted:
            result.outcome = ActionOutcome.FAILED
            sentence = "; ".join(filter(None, (problem, unstarted)))
            result.reason = Reason(rule_id="node_action.reset_failed", sentence=sentence[:2_000])
        return result

    async def _quiesce(self, stopped: list[Quiesced], result: ActionResult) -> str:
        for quiesced in self._configured.quiesce:
            stopped.append(quiesced)  # started again even when its stop fails half-way
            end = await self._run(quiesced.stop, result)
            if not end.succeeded:
                return f"{shown(quiesced.stop)} {_ended(end)}"
        return ""

    async def _run_reset(self, order: OrderNodeAction, device: DeviceIdentity, result: ActionResult) -> str:
        try:
            holders = await self._holders.of(device)
        except OSError as error:
            return f"who holds {order.gpu_uuid} cannot be told: {error}"
        if holders:
            return f"{order.gpu_uuid} is still held by {_named(holders)}; it was not reset"
        command = filled(self._configured.commands[NodeAction.RESET_GPU], order, device)
        end = await self._run(command, result)
        result.output = end.output
        return "" if end.succeeded else f"{shown(command)} {_ended(end)}"

    async def _start_again(self, stopped: list[Quiesced], result: ActionResult) -> str:
        failed = []
        for quiesced in reversed(stopped):
            end = await self._run(quiesced.start, result)
            if not end.succeeded:
                failed.append(f"{shown(quiesced.start)} {_ended(end)}")
        return "; ".join(failed)

    async def _run(self, command: Command, result: ActionResult) -> CommandEnd:
        result.commands.append(shown(command))
        return await self._machine.run(command, limit_s=self._limits.command_s)

    async def _verify(self, order: OrderNodeAction, device: DeviceIdentity, result: ActionResult) -> ActionResult:
        """A command that says it worked is not a GPU that works."""
        seen = await self._watch.fresh(device, limit_s=self._limits.verify_s)
        if not seen:
            why = "nothing was seen of it" if seen is not None else "no fresh look"
            sentence = f"the reset ran, and {why} within {self._limits.verify_s:g} s: {order.gpu_uuid} is not verified"
            result.outcome = ActionOutcome.FAILED
            result.reason = Reason(rule_id="node_action.not_verified", sentence=sentence)
            return result
        bad = [observation for observation in seen if observation.health is Health.BAD]
        if bad:
            told = ", ".join(f"{o.check}{f' ({o.detail})' if o.detail else ''}" for o in bad[:HOLDERS_NAMED_MAX])
            result.outcome = ActionOutcome.FAILED
            sentence = f"the reset ran, and {order.gpu_uuid} is still bad: {told}"[:2_000]
            result.reason = Reason(rule_id="node_action.still_bad", sentence=sentence)
            return result
        sentence = f"{order.gpu_uuid} was reset; {len(seen)} fresh looks find nothing bad"
        result.reason = Reason(rule_id="node_action.verified", sentence=sentence)
        return result


def _refused(rule_id: str, sentence: str) -> ActionResult:
    return ActionResult(outcome=ActionOutcome.REFUSED, reason=Reason(rule_id=rule_id, sentence=sentence[:2_000]))


def _named(holders: Sequence[Holder]) -> str:
    shown_holders = ", ".join(map(str, holders[:HOLDERS_NAMED_MAX]))
    more = len(holders) - HOLDERS_NAMED_MAX
    return f"{shown_holders} and {more} more" if more > 0 else shown_holders


def _ended(end: CommandEnd) -> str:
    if end.exit_code is None:
        return end.problem
    last = end.output.strip().splitlines()
    return f"ended with exit code {end.exit_code}{f': {last[-1][:300]}' if last else ''}"
