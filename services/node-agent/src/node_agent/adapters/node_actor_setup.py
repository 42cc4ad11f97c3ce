"""The host role's hand, put together from settings: commands, journal, holders, and the look that verifies."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

from fault_contracts.node_actions import NodeAction
from node_agent.adapters.action_journal import SqliteActionJournal
from node_agent.adapters.device_holders import ProcHolders
from node_agent.adapters.gpu_watch_gate import GpuWatchGate
from node_agent.adapters.node_commands import NodeCommands, missing_program
from node_agent.adapters.own_watch import BoardWatch
from node_agent.application.act_on_node import ActorIdentity, NodeActor
from node_agent.application.collector_ports import DeviceDirectory
from node_agent.application.control_ports import EventOutbox
from node_agent.application.host_life import HostLife
from node_agent.application.host_reports import HostIdentity
from node_agent.application.node_action_options import NodeActionOptions
from node_agent.application.reset_gpu import GpuReset
from node_agent.domain.node_action_plan import ActionCommands
from service_kit.cancellation import cancel_all
from service_kit.clock import SystemClock
from service_kit.ports import Bus

PROGRAM = "node_agent.adapters.validation_program"
NOT_SET = "no command is set for it"


def validation_command(node_id: str, *, nats_url: str, cluster: str, data_dir: Path) -> tuple[str, ...]:
    """A process of its own: what a device does to it must not happen to the agent."""
    told = {"node-id": node_id, "nats-url": nats_url, "cluster": cluster, "data-dir": str(data_dir)}
    flags = [f"--{name}={value}" for name, value in told.items()]
    return (sys.executable, "-P", "-m", PROGRAM, "--brief", "--no-publish", *flags)


def node_actor(
    options: NodeActionOptions,
    identity: HostIdentity,
    life: HostLife,
    gate: GpuWatchGate,
    directory: DeviceDirectory,
    outbox: EventOutbox,
    journal: SqliteActionJournal,
    holders: ProcHolders,
    *,
    validate: tuple[str, ...],
) -> NodeActor:
    """The actor; its caller closes the journal."""
    clock, machine = SystemClock(), NodeCommands()
    commands = {**options.commands.commands, NodeAction.VALIDATE: (*validate, *options.validate_flags)}
    configured = ActionCommands(commands=commands, quiesce=options.commands.quiesce)
    return NodeActor(
        ActorIdentity(node_id=identity.node_id, instance_id=identity.instance_id, boot_id=identity.boot_id),
        options.policy,
        configured,
        journal,
        machine,
        GpuReset(configured, machine, holders, BoardWatch(life.board, gate, clock), options.reset),
        directory,
        outbox,
        clock,
        impossible=lambda: _impossible(configured),
    )


class Acting:
    """The actor at work: service_kit.ports.Subscription, to be stopped while the outbox still takes answers."""

    def __init__(self, actor: NodeActor, journal: SqliteActionJournal, bus: Bus, *, catch_up_s: float) -> None:
        self._actor = actor
        self._journal = journal
        self._looking = asyncio.create_task(actor.forever(bus, interval_s=catch_up_s), name="look for orders")

    async def failed(self) -> None:
        """Ends only with the failure of the look for orders."""
        await asyncio.shield(self._looking)

    async def stop(self) -> None:
        """Take no more orders, give up what is under way, and close the journal that knows it."""
        await cancel_all([self._looking])
        await self._actor.close()
        self._journal.close()


def _impossible(configured: ActionCommands) -> Mapping[NodeAction, str]:
    """Looked at with each order: a driver may be installed while the agent runs."""
    reasons = {}
    for action in NodeAction:
        command = configured.commands.get(action)
        why = NOT_SET if command is None else missing_program(command)
        if why:
            reasons[action] = why
    return reasons
