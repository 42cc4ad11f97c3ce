"""What is run for a node action, in which order: configured commands with the device's names put in."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fault_contracts.inventory import DeviceIdentity
from fault_contracts.node_actions import NodeAction, OrderNodeAction

Command = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quiesced:
    """A service that holds GPUs open for good reasons: stopped before a reset, started after it.

    Attributes:
        processes: names (/proc/PID/comm) of the processes that are gone when it is stopped.
    """

    stop: Command
    start: Command
    processes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionCommands:
    """What the operator configured. An action without a command cannot be done here."""

    commands: Mapping[NodeAction, Command]
    quiesce: Sequence[Quiesced] = ()


def filled(command: Command, order: OrderNodeAction, device: DeviceIdentity | None) -> Command:
    """The command with {pci} {uuid} {index} {minor} {node} put in, each within one argument."""
    names = {
        "{pci}": "" if device is None else device.pci_bus_id,
        "{uuid}": order.gpu_uuid,
        "{index}": "" if device is None or device.index is None else str(device.index),
        "{minor}": "" if device is None or device.minor is None else str(device.minor),
        "{node}": order.node_id,
    }
    words = []
    for word in command:
        for name, value in names.items():
            word = word.replace(name, value)
        words.append(word)
    return tuple(words)


def steps_of(configured: ActionCommands, order: OrderNodeAction, device: DeviceIdentity | None) -> tuple[Command, ...]:
    """Everything that would be run for an order, in order."""
    command = configured.commands.get(order.action)
    if command is None:
        return ()
    main = filled(command, order, device)
    if order.action is not NodeAction.RESET_GPU:
        return (main,)
    return (*(q.stop for q in configured.quiesce), main, *(q.start for q in reversed(configured.quiesce)))


def shown(command: Command) -> str:
    """The command as one would type it."""
    return shlex.join(command)[:512]
