"""Is any device of this node in quarantine? Asks the service that keeps the ledger of bad hardware."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import ValidationError

from fault_contracts.hardware import Hold, LedgerEntry
from fault_contracts.payload import Health
from node_agent.domain.validation_result import CheckResult
from service_kit.errors import ServiceError
from service_kit.ports import Bus

LEDGER = "ledger"


class LedgerCheck:
    """application.validation_ports.LocalCheck.

    Args:
        gpu_uuids: names of this node's devices: a bad one is known by its name wherever it was put.
    """

    def __init__(self, bus: Bus, *, node_id: str, gpu_uuids: frozenset[str], limit_s: float) -> None:
        self._bus = bus
        self._node_id = node_id
        self._gpu_uuids = gpu_uuids
        self._limit_s = limit_s

    async def run(self) -> Sequence[CheckResult]:
        """One line for each device that is held, else one in all."""
        try:
            question = json.dumps({"verb": "list", "device_id": ""}).encode()
            raw = await self._bus.ask(what="hardware", key=LEDGER, body=question, timeout_s=self._limit_s)
        except ServiceError as error:
            return [_line(Health.UNKNOWN, "unreachable", f"the ledger cannot be asked: {error}")]
        if raw is None:
            return [_line(Health.UNKNOWN, "unreachable", "nobody keeps the ledger now (is health-ingest running?)")]
        try:
            told = json.loads(raw)
            if not told.get("ok"):
                return [_line(Health.UNKNOWN, "refused", f"the ledger refuses: {str(told.get('error', ''))[:300]}")]
            entries = [LedgerEntry.model_validate(entry) for entry in told["entries"]]
        except (ValueError, ValidationError, KeyError, TypeError, AttributeError) as error:
            return [_line(Health.UNKNOWN, "unreadable", f"the ledger's answer is not understood: {error}"[:500])]
        held = [e for e in entries if e.hold is Hold.QUARANTINED and self._is_here(e)]
        if not held:
            sentence = f"none of {len(entries)} listed devices is in quarantine and here"
            return [_line(Health.OK, "clean", sentence)]
        return [_line(Health.BAD, "quarantined", _why(entry), subject=entry.device_id) for entry in held]

    def _is_here(self, entry: LedgerEntry) -> bool:
        return entry.node_id == self._node_id or bool({entry.device_id, *entry.other_ids} & self._gpu_uuids)


def _why(entry: LedgerEntry) -> str:
    reason = "no reason is recorded" if entry.reason is None else entry.reason.sentence
    until = "until it is released" if entry.until is None else f"until {entry.until:%Y-%m-%d %H:%M} UTC"
    return f"in quarantine {until}, by {entry.by or 'unknown'}: {reason}"


def _line(health: Health, rule: str, sentence: str, *, subject: str = "") -> CheckResult:
    return CheckResult(
        check="ledger", subject=subject, health=health, rule_id=f"validation.ledger_{rule}", sentence=sentence
    )
