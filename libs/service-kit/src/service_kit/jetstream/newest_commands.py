"""The newest stored command of each type for one job or node, as an agent catches up with it.

One direct get for each type, with the command's subject in the request's own: so the server can permit an agent its own
commands and no others. A multi-last get would be one request, but names its subjects in the body, which no permission
sees: with it every node could read every command of the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fault_contracts.envelope import EnvelopeError
from fault_contracts.registry import Stream
from fault_contracts.subjects import ROOT, Kind
from service_kit.command_signature import CommandKeys, ForgedCommand
from service_kit.delivery import GiveUp, decode, judge_failure
from service_kit.errors import ContractViolation, NoPermission
from service_kit.jetstream.connection import Connection
from service_kit.jetstream.dead_letters import DeadLetters
from service_kit.jetstream.direct_get import Stored, last_message, last_messages
from service_kit.ports import Delivery

_COMMAND = f"{ROOT}.{Kind.CMD}."
HIDDEN_MAX = 8
"""Undecodable commands in a row on one subject that are looked behind."""
REFUSED_KEPT = 256


class NewestCommands:
    """Reads; an undecodable command is dead-lettered once and does not hide the one before it."""

    def __init__(
        self,
        connection: Connection,
        *,
        reader: str,
        dead_letters: DeadLetters,
        command_keys: CommandKeys | None = None,
    ) -> None:
        self._command_keys = command_keys
        self._connection = connection
        self._reader = reader
        self._dead_letters = dead_letters
        self._refused: set[int] = set()

    async def read(self, subjects: Sequence[str]) -> list[Delivery]:
        """The newest of each subject that has one, oldest first."""
        newest = await asyncio.gather(*(last_message(self._connection, Stream.CONTROL, each) for each in subjects))
        found = [await self._decoded(stored) for stored in newest if stored is not None]
        return sorted((d for d in found if d is not None), key=lambda delivery: delivery.stream_sequence or 0)

    async def _decoded(self, stored: Stored) -> Delivery | None:
        """This command, or the newest before it on its subject that can be decoded."""
        for _ in range(HIDDEN_MAX):
            try:
                if self._command_keys is not None and stored.subject.startswith(_COMMAND):
                    self._command_keys.check(stored.subject, stored.headers, stored.body)
                envelope: Any = decode(stored.body, stored.subject)
            except (EnvelopeError, ForgedCommand) as error:
                await self._refuse(stored, error)
            else:
                return Delivery(
                    envelope=envelope, subject=stored.subject, stream_sequence=stored.sequence, deliveries=1
                )
            before = await self._before(stored)
            if before is None:
                return None
            stored = before
        return None

    async def _before(self, stored: Stored) -> Stored | None:
        if stored.sequence <= 1:
            return None
        try:
            found = await last_messages(
                self._connection, Stream.CONTROL, [stored.subject], up_to_sequence=stored.sequence - 1
            )
        except NoPermission:
            return None  # where identities are in force only the planner writes there, and it writes no garbage
        return found[0] if found else None

    async def _refuse(self, stored: Stored, problem: Exception) -> None:
        if stored.sequence in self._refused:
            return  # said already: whoever catches up meets it every few seconds
        if len(self._refused) >= REFUSED_KEPT:
            self._refused.clear()
        self._refused.add(stored.sequence)
        judged = judge_failure(problem, tries=1)
        await self._dead_letters.put(
            judged if isinstance(judged, GiveUp) else GiveUp(error=ContractViolation.__name__, message=str(problem)),
            stored.body,
            consumer=self._reader,
            subject=stored.subject,
            stream=Stream.CONTROL,
            stream_sequence=stored.sequence,
            deliveries=1,
        )
