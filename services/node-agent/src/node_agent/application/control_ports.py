"""Ports of the agent's own business: the terminal, the outbox, the command journal, the port of rank 0's store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from fault_contracts.envelope import Envelope
from node_agent.domain.fence import FencePoint


class Announcer(Protocol):
    """The person's terminal."""

    def say(self, line: str) -> None:
        """Show one event. Short; never blocks and never raises."""


class EventOutbox(Protocol):
    """Keeps what the agent reports until the bus has it (service_kit.outbox)."""

    async def put(self, envelope: Envelope[Any], *, urgent: bool = False) -> None:
        """Take an event over; returns when it would survive a kill of this process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """A command that this node began to carry out.

    Attributes:
        instance_id: the life of the agent that did it. Workers end with their agent, so a start by another life is
            history, not a state.
        outcome: the report that answered it, as an envelope; None: none was needed, or the agent died in between.
    """

    operation_id: str
    instance_id: str
    outcome: bytes | None


class CommandJournal(Protocol):
    """Commands and their outcomes; survives the agent."""

    def newest(self, job_id: str) -> FencePoint:
        """The newest command begun for a job, over all lives of the agent."""

    def find(self, operation_id: str) -> JournalEntry | None:
        """The entry of an operation, or None when it never began here."""

    def begin(self, operation_id: str, *, job_id: str, point: FencePoint, instance_id: str) -> None:
        """Note that an operation begins; one that another life began is taken over."""

    def finish(self, operation_id: str, outcome: bytes) -> None:
        """Store the report that answers the operation."""


class MasterPort(Protocol):
    """A port for the store of rank 0, held so that nobody else gets it."""

    @property
    def number(self) -> int:
        """The port reserved now."""

    def renew(self) -> int:
        """Let go of the old port and reserve a fresh one: every topology_version has its own store address."""
