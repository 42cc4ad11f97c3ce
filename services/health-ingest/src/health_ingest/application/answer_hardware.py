"""Answer a person who asks the ledger, or changes it: list, show, quarantine, release."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime
from typing import Any

from fault_contracts.hardware import Hold, LedgerEntry
from fault_contracts.inventory import DeviceIdentity, DeviceKind
from fault_contracts.payload import Reason
from health_ingest.application.hardware_ports import NodeRecords
from health_ingest.application.keep_ledger import KeepLedger
from health_ingest.domain.ledger import Step, quarantine, release, score_at
from service_kit.errors import PermanentError
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock, Subscription

KEY = "ledger"
READS = ("list", "show")
CHANGES = ("quarantine", "release")
ENTRIES_MAX = 500
"""Entries in one answer: some 1.5 KB each, and the bus carries 1 MB."""
STRIKES_SHOWN = 1
"""In a list; `show` has all that are kept."""
NODES_SEARCHED_MAX = 4_096
READS_AT_ONCE = 32
_log = get_logger(__name__)


class AskedWrongly(Exception):
    """The question cannot be answered; the text says why."""


class AnswerHardware:
    """Serves the questions `hardware` and `hardware_change`. Several replicas may: a repeated order changes nothing."""

    def __init__(self, *, ledger: KeepLedger, nodes: NodeRecords, bus: Bus, clock: Clock) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._bus = bus
        self._clock = clock

    async def serve(self) -> list[Subscription]:
        """Begin to answer."""
        return [
            await self._bus.answer(what="hardware", key=KEY, reply=self.tell),
            await self._bus.answer(what="hardware_change", key=KEY, reply=self.change),
        ]

    async def tell(self, body: bytes) -> bytes:
        """The reply to who reads, as JSON; see fault_contracts.asks."""
        return await self._answer(body, READS)

    async def change(self, body: bytes) -> bytes:
        """The reply to who changes, as JSON; see fault_contracts.asks."""
        return await self._answer(body, CHANGES)

    async def _answer(self, body: bytes, verbs: tuple[str, ...]) -> bytes:
        try:
            question: Any = json.loads(body or b"{}")
            if not isinstance(question, dict):
                raise AskedWrongly("the question is no JSON object")
            asked = {str(name): str(value) for name, value in question.items()}
            if asked.get("verb", "") not in verbs:
                # Who may ask here was decided on by the question's subject, so the other verbs are not heard on it.
                raise AskedWrongly(f"verb {asked.get('verb', '')!r}; {' or '.join(verbs)} is understood here")
            changed, entries = await self._act(asked)
        except AskedWrongly as error:
            return _said(ok=False, error=str(error))
        except ValueError as error:
            return _said(ok=False, error=f"the question is not understood: {error}")
        return _said(ok=True, changed=changed, entries=entries)

    async def _act(self, asked: dict[str, str]) -> tuple[bool, list[dict[str, Any]]]:
        verb, device_id = asked.get("verb", ""), asked.get("device_id", "")
        if verb == "list":
            return False, await self._list()
        if not device_id:
            raise AskedWrongly("device_id is missing")
        match verb:
            case "show":
                entry = await self._ledger.entry_of(DeviceIdentity(kind=DeviceKind.OTHER, device_id=device_id))
                if entry is None:
                    raise AskedWrongly(f"{device_id} is not in the ledger: nothing is held against it")
                return False, [self._shown(entry)]
            case "quarantine":
                step = await self._quarantine(device_id, asked)
            case _:
                step = await self._release(device_id, asked)
        return bool(step.effects), [self._shown(step.entry)]

    async def _list(self) -> list[dict[str, Any]]:
        entries: list[LedgerEntry] = []
        for device_id in await self._ledger.records.device_ids():
            try:
                record = await self._ledger.records.load(device_id)
            except PermanentError as error:
                _log.error("ledger_entry_unreadable", device_id=device_id, error=str(error))
                continue
            if record is not None:
                entries.append(record.entry)
        # What is held comes first; then who has most against it.
        now, policy = self._clock.now(), self._ledger.policy
        entries.sort(key=lambda each: (each.hold is Hold.FREE, -score_at(each, now, policy), each.device_id))
        return [self._shown(entry, strikes=STRIKES_SHOWN) for entry in entries[:ENTRIES_MAX]]

    async def _quarantine(self, device_id: str, asked: dict[str, str]) -> Step:
        by, reason = _by(asked), _reason("ledger.person", asked)
        until = datetime.fromisoformat(asked["until"]) if asked.get("until") else None
        if until is not None and until.tzinfo is None:
            raise AskedWrongly("until has no time zone")
        now = self._clock.now()
        if until is not None and until <= now:
            raise AskedWrongly(f"until is {until.isoformat()}, which is over")
        node_id, device = await self._where(device_id)

        def decide(entry: LedgerEntry) -> Step:
            placed = entry if node_id is None else entry.model_copy(update={"node_id": node_id})
            return quarantine(placed, by=by, reason=reason, until=until, now=now)

        return await self._ledger.change(device, decide, create=True)

    async def _release(self, device_id: str, asked: dict[str, str]) -> Step:
        by, reason = _by(asked), _reason("ledger.released", asked)
        device = DeviceIdentity(kind=DeviceKind.OTHER, device_id=device_id)
        if await self._ledger.entry_of(device) is None:
            raise AskedWrongly(f"{device_id} is not in the ledger: there is nothing to release")

        def decide(entry: LedgerEntry) -> Step:
            return release(entry, by=by, reason=reason, now=self._clock.now(), policy=self._ledger.policy)

        return await self._ledger.change(device, decide, create=False)

    async def _where(self, device_id: str) -> tuple[str | None, DeviceIdentity]:
        """The node that has a device, so that it is held back at once, and all that it knows of it."""
        slots = asyncio.Semaphore(READS_AT_ONCE)

        async def look(node_id: str) -> tuple[str, DeviceIdentity] | None:
            async with slots:
                try:
                    record = await self._nodes.load(node_id)
                except PermanentError as error:
                    _log.error("node_record_unreadable", node_id=node_id, error=str(error))
                    return None
            for device in record.state.standing.devices if record is not None else ():
                if device.device_id == device_id:
                    return node_id, device
            return None

        nodes = (await self._nodes.node_ids())[:NODES_SEARCHED_MAX]
        found = [each for each in await asyncio.gather(*map(look, nodes)) if each is not None]
        if found:
            return found[0]
        return None, DeviceIdentity(kind=DeviceKind.OTHER, device_id=device_id)

    def _shown(self, entry: LedgerEntry, *, strikes: int | None = None) -> dict[str, Any]:
        shown: dict[str, Any] = entry.model_dump(mode="json", exclude={"evidence_ids"})
        shown["score"] = round(score_at(entry, self._clock.now(), self._ledger.policy), 2)
        if strikes is not None:
            shown["strikes"] = shown["strikes"][-strikes:]
        return shown


def _by(asked: dict[str, str]) -> str:
    by = asked.get("by", "").strip()[:256]
    if not by:
        raise AskedWrongly("by is missing: who asks is recorded")
    return by


def _reason(rule_id: str, asked: dict[str, str]) -> Reason:
    sentence = asked.get("reason", "").strip()[:2_048]
    if not sentence:
        raise AskedWrongly("reason is missing: it is shown to whoever is refused because of it")
    return Reason(rule_id=rule_id, sentence=sentence)


def _said(*, ok: bool, error: str = "", changed: bool = False, entries: list[dict[str, Any]] | None = None) -> bytes:
    return json.dumps({"ok": ok, "error": error, "changed": changed, "entries": entries or []}).encode()
