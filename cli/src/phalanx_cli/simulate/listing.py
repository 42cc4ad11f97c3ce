"""What health-ingest's own ledger makes of the devices of a simulated fleet: strikes, quarantine, who is listed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fault_contracts.hardware import Hold, LedgerEntry, Strike
from fault_contracts.payload import Reason
from health_ingest.domain.ledger import LedgerPolicy, quarantine, strike

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
"""Simulated time begins here; no result depends on it."""


def at(seconds: float) -> datetime:
    """A simulated time as the domains want it."""
    return EPOCH + timedelta(seconds=seconds)


class Listing:
    """The entries of all devices that ever failed."""

    def __init__(self, policy: LedgerPolicy | None = None) -> None:
        self._policy = policy or LedgerPolicy()
        self._entries: dict[str, LedgerEntry] = {}
        self._strikes = 0

    def struck(self, device: str, node: str, check: str, now_s: float, *, replaces: bool) -> bool:
        """Count a failure; True: the device is listed now."""
        self._strikes += 1
        entry = self._entries.get(device) or LedgerEntry(device_id=device)
        blow = Strike(
            evidence_id=f"strike-{self._strikes}",
            node_id=node,
            check=check,
            reason=f"{check} on {node}",
            struck_at=at(now_s),
        )
        step = strike(entry, blow, replaces=replaces, now=at(now_s), policy=self._policy)
        self._entries[device] = step.entry
        return step.entry.hold is Hold.QUARANTINED

    def taken_out(self, device: str, now_s: float) -> None:
        """A device was replaced: it is listed, whatever its score."""
        entry = self._entries.get(device) or LedgerEntry(device_id=device)
        reason = Reason(rule_id="ledger.replace", sentence="the node's ladder ended with replacing it")
        step = quarantine(entry, by="simulation", reason=reason, until=None, now=at(now_s))
        self._entries[device] = step.entry

    def is_listed(self, device: str) -> bool:
        """Whether it must not be used."""
        entry = self._entries.get(device)
        return entry is not None and entry.hold is Hold.QUARANTINED

    @property
    def listed(self) -> int:
        """How many are."""
        return sum(entry.hold is Hold.QUARANTINED for entry in self._entries.values())
