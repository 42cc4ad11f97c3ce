"""What carrying out a node action asks of the machine and of the agent's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fault_contracts.inventory import DeviceIdentity
from node_agent.domain.observation import Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """How a command of the machine ended.

    Attributes:
        exit_code: None: it did not end in time and was killed, or it could not be started.
        output: the end of what it printed.
        problem: why there is no exit code; empty when there is one.
    """

    exit_code: int | None
    output: str = ""
    problem: str = ""

    @property
    def succeeded(self) -> bool:
        """Exit code 0."""
        return self.exit_code == 0


class MachineCommands(Protocol):
    """Runs what the operator configured. Arguments are lists, never a shell."""

    async def run(self, command: Sequence[str], *, limit_s: float) -> CommandEnd:
        """Run it, with everything it starts, to its end or to the deadline. Never raises for what the command does."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """A process that has a device open."""

    pid: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})"


class DeviceHolders(Protocol):
    """Who has a GPU open."""

    async def of(self, device: DeviceIdentity) -> Sequence[Holder]:
        """Processes that hold it, this agent's own included.

        Raises:
            OSError: it cannot be told; nobody may then assume that there are none.
        """
        ...


class OwnWatch(Protocol):
    """The agent's own look at the GPUs: it holds them open as well, and it verifies a reset."""

    async def pause(self) -> None:
        """Let go of all devices."""
        ...

    async def resume(self) -> None:
        """Look again."""
        ...

    async def fresh(self, device: DeviceIdentity, *, limit_s: float) -> Sequence[Observation] | None:
        """What was seen of a device by looks that began after this call; None: nothing in time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionEntry:
    """What the journal knows of an operation.

    Attributes:
        order: the order as JSON.
        outcome: the report that answered it as JSON; None: it began and its end is not known.
    """

    operation_id: str
    boot_id: str
    instance_id: str
    order: bytes
    outcome: bytes | None


class ActionJournal(Protocol):
    """Operations begun on this machine and how they ended; survives agent and machine."""

    def find(self, operation_id: str) -> ActionEntry | None:
        """The entry of an operation, or None when it never began here."""
        ...

    def unfinished(self) -> Sequence[ActionEntry]:
        """Operations that began and have no outcome."""
        ...

    def begin(self, entry: ActionEntry) -> None:
        """Note, durably, that an operation begins. After this returns a power cut does not forget it."""
        ...

    def finish(self, operation_id: str, outcome: bytes) -> None:
        """Store the report that answers it."""
        ...
