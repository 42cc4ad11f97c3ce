"""The bad-hardware ledger: strikes with decay, quarantine, probation. One entry a device, wherever it is built in.

    FREE ──strike over the limit, ruling, person──▶ QUARANTINED ──date, person──▶ PROBATION ──time──▶ FREE
                                                        ▲                             │
                                                        └────────── one strike ───────┘

A device is known by its uuid or GUID, or by board serial and PCI vendor data together: a board that comes back under
another uuid is the same board. The numbers (half-life, limit, probation) are our own policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fault_contracts.hardware import (
    EVIDENCE_KEPT,
    STRIKES_KEPT,
    UNPLACED,
    HardwareChange,
    HardwareChanged,
    Hold,
    LedgerEntry,
    Strike,
)
from fault_contracts.inventory import DeviceIdentity, DeviceKind
from fault_contracts.payload import Reason

SERVICE = "health-ingest"
OTHER_IDS_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPolicy:
    """Limits of the ledger.

    Attributes:
        half_life_s: after it, a strike counts half.
        strikes_max: a score that reaches it puts the device into quarantine.
        probation_s: how long one strike is enough after a quarantine.
    """

    half_life_s: float = 14 * 86_400.0
    strikes_max: float = 2.5
    probation_s: float = 7 * 86_400.0

    def __post_init__(self) -> None:
        """Refuse values that would list everything or nothing.

        Raises:
            ValueError: with the name of the value.
        """
        for name in ("half_life_s", "probation_s"):
            if not 3_600 <= getattr(self, name) <= 365 * 86_400:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be an hour to a year")
        if not 1 <= self.strikes_max <= 100:
            raise ValueError(f"strikes_max is {self.strikes_max}; it must be 1 to 100")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Result of one event. The same entry: nothing changed."""

    entry: LedgerEntry
    effects: tuple[HardwareChanged, ...]
    reason: Reason


def score_at(entry: LedgerEntry, now: datetime, policy: LedgerPolicy) -> float:
    """Strikes as they count now."""
    if entry.scored_at is None:
        return 0.0
    age_s = max(0.0, (now - entry.scored_at).total_seconds())
    return float(entry.score * 0.5 ** (age_s / policy.half_life_s))


def strike(
    entry: LedgerEntry,
    blow: Strike,
    *,
    also: tuple[str, ...] = (),
    replaces: bool,
    now: datetime,
    policy: LedgerPolicy,
) -> Step:
    """Count a failure. `also` are ids of the same evidence under other names; `replaces`: the ruling wants it out."""
    ids = (blow.evidence_id, *also)
    if any(each in entry.evidence_ids for each in ids):
        return _same(entry, "known", f"{blow.evidence_id} was counted before")
    at = min(blow.struck_at, now)
    # A late report of an old failure counts as much as it is worth by now, and moves no clock back.
    counted_at = at if entry.scored_at is None else max(at, entry.scored_at)
    worth = 0.5 ** ((counted_at - at).total_seconds() / policy.half_life_s)
    struck = _changed(
        entry,
        node_id=entry.node_id if blow.node_id == UNPLACED else blow.node_id,
        score=score_at(entry, counted_at, policy) + worth,
        scored_at=counted_at,
        strikes_total=entry.strikes_total + 1,
        strikes=(*entry.strikes, blow)[-STRIKES_KEPT:],
        evidence_ids=(*entry.evidence_ids, *ids)[-EVIDENCE_KEPT:],
    )
    reason = Reason(rule_id="ledger.strike", sentence=blow.reason, evidence_ids=(blow.evidence_id,))
    step = Step(entry=struck, effects=(_told(struck, HardwareChange.STRUCK, SERVICE, reason, now),), reason=reason)
    why = _why_out(struck, blow, replaces=replaces, now=now, policy=policy)
    if why is None or entry.hold is Hold.QUARANTINED:
        return step
    held = quarantine(struck, by=SERVICE, reason=why, until=None, now=now)
    return Step(entry=held.entry, effects=(*step.effects, *held.effects), reason=why)


def _why_out(
    struck: LedgerEntry, blow: Strike, *, replaces: bool, now: datetime, policy: LedgerPolicy
) -> Reason | None:
    score = score_at(struck, now, policy)
    if replaces:
        rule, why = "ledger.replace", "the policy asks to replace it"
    elif struck.hold is Hold.PROBATION:
        rule, why = "ledger.probation", "it was on probation"
    elif score >= policy.strikes_max:
        rule = "ledger.strikes"
        why = f"{struck.strikes_total} strikes, of which {score:.1f} still count, reach the limit"
    else:
        return None
    return Reason(rule_id=rule, sentence=f"{blow.reason}; {why}"[:2_048], evidence_ids=(blow.evidence_id,))


def quarantine(entry: LedgerEntry, *, by: str, reason: Reason, until: datetime | None, now: datetime) -> Step:
    """Take a device out of use, until a date or until somebody releases it."""
    same = (entry.hold, entry.by, entry.until) == (Hold.QUARANTINED, by, until)
    if same and entry.reason is not None and entry.reason.sentence == reason.sentence:
        return _same(entry, "quarantined", f"{entry.device_id} is in quarantine for that already")
    held = _changed(entry, hold=Hold.QUARANTINED, reason=reason, by=by, since=now, until=until)
    return Step(entry=held, effects=(_told(held, HardwareChange.QUARANTINED, by, reason, now),), reason=reason)


def release(entry: LedgerEntry, *, by: str, reason: Reason, now: datetime, policy: LedgerPolicy) -> Step:
    """A person lets a device go: from quarantine to probation, from probation to freedom."""
    match entry.hold:
        case Hold.FREE:
            return _same(entry, "free", f"{entry.device_id} is not held")
        case Hold.QUARANTINED:
            until = now + timedelta(seconds=policy.probation_s)
            let = _changed(entry, hold=Hold.PROBATION, reason=reason, by=by, since=now, until=until)
        case Hold.PROBATION:
            let = _changed(entry, hold=Hold.FREE, reason=reason, by=by, since=now, until=None)
    return Step(entry=let, effects=(_told(let, HardwareChange.RELEASED, by, reason, now),), reason=reason)


def pass_time(entry: LedgerEntry, *, now: datetime, policy: LedgerPolicy) -> Step:
    """Let a date pass: the end of a quarantine is a probation, the end of a probation is freedom."""
    if entry.until is None or now < entry.until or entry.hold is Hold.FREE:
        return _same(entry, "early", "no date has passed")
    if entry.hold is Hold.QUARANTINED:
        reason = Reason(rule_id="ledger.date", sentence="its quarantine ended by date; it is on probation")
        until = now + timedelta(seconds=policy.probation_s)
        let = _changed(entry, hold=Hold.PROBATION, reason=reason, by=SERVICE, since=now, until=until)
        return Step(entry=let, effects=(_told(let, HardwareChange.PROBATION, SERVICE, reason, now),), reason=reason)
    reason = Reason(rule_id="ledger.probation_over", sentence="it went through its probation without a strike")
    free = _changed(entry, hold=Hold.FREE, reason=reason, by=SERVICE, since=now, until=None)
    return Step(entry=free, effects=(_told(free, HardwareChange.RELEASED, SERVICE, reason, now),), reason=reason)


def seen(entry: LedgerEntry, device: DeviceIdentity, *, node_id: str, seen_at: datetime, now: datetime) -> Step:
    """A node reports that a listed device is built in."""
    if entry.seen_at is not None and seen_at < entry.seen_at:
        return _same(entry, "older", f"{entry.device_id} was seen later than that")
    identity = identified(entry, device)
    place = _changed(identity, node_id=node_id, seen_at=seen_at)
    if place.node_id == entry.node_id:
        if identity == entry:
            return _same(entry, "there", f"{entry.device_id} is where it was")
        return Step(entry=place, effects=(), reason=Reason(rule_id="ledger.identity", sentence="more is known of it"))
    sentence = f"{entry.device_id} was on {entry.node_id} and is on {node_id} now; what it did goes with it"
    reason = Reason(rule_id="ledger.moved", sentence=sentence)
    left = _told(place, HardwareChange.MOVED, SERVICE, reason, now, node_id=entry.node_id)
    return Step(entry=place, effects=(left, _told(place, HardwareChange.MOVED, SERVICE, reason, now)), reason=reason)


def identified(entry: LedgerEntry, device: DeviceIdentity) -> LedgerEntry:
    """The entry with what an inventory knows of the device; what is known already is kept."""
    others = entry.other_ids
    if device.device_id != entry.device_id and device.device_id not in others:
        others = (*others, device.device_id)[-OTHER_IDS_MAX:]
    return entry.model_copy(
        update={
            "kind": entry.kind if device.kind is DeviceKind.OTHER else device.kind,
            "other_ids": others,
            "board_serial": entry.board_serial or device.board_serial,
            "board_part_number": entry.board_part_number or device.board_part_number,
            "pci_vendor_data": entry.pci_vendor_data or device.pci_vendor_data,
            "name": entry.name or device.name,
        }
    )


def _changed(entry: LedgerEntry, **fields: Any) -> LedgerEntry:
    return entry.model_copy(update={**fields, "version": entry.version + 1})


def _told(
    entry: LedgerEntry, change: HardwareChange, by: str, reason: Reason, now: datetime, *, node_id: str = ""
) -> HardwareChanged:
    return HardwareChanged(
        node_id=node_id or entry.node_id,
        device_id=entry.device_id,
        change=change,
        entry=entry,
        by=by,
        reason=reason,
        until=entry.until,
        changed_at=now,
    )


def _same(entry: LedgerEntry, rule: str, sentence: str) -> Step:
    return Step(entry=entry, effects=(), reason=Reason(rule_id=f"ledger.{rule}", sentence=sentence))
