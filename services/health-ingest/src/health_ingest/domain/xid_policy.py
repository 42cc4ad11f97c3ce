"""What a code of the NVIDIA driver means: a signal and what was seen before it, into a ruling.

In this order: the driver's own wish (Xid 154, NVML field 230) wins; then the row of the code, changed by what the line
itself says (registers, decoded words) and by how often it was seen. A code without a row is recorded, and evicts
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from fault_contracts.faults import Action, Attribution
from fault_contracts.payload import Health
from health_ingest.domain.ruling import Clears, Ruling, Weight
from health_ingest.domain.seen import Seen, seen_within, times_seen
from health_ingest.domain.signal import Signal
from health_ingest.domain.xid_opinion import NVLINK5_CODES, Opinion, read_nvlink5, read_registers
from health_ingest.domain.xid_rows import Judgement, SxidRow, XidPolicy, XidRow

RECOVERY_CHECK = "gpu_recovery_action"
"""NVML field 230, and what Xid 154 says in the kernel log: the same word, from two witnesses."""
RECOVERY_CLASS = "gpu_recovery_action"
XID_154 = "xid_154"
NO_WISH = "none"
_CHECK = re.compile(r"(s?xid)_(\d{1,5})")
_UNKNOWN = Judgement(weight=Weight.RECORD, origin=Attribution.UNKNOWN, action=Action.WAIT_OR_IGNORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clearing:
    """A signal that ends others' conditions of the same device.

    Attributes:
        fault_class: the class that is over; None: all of the device that a reset clears.
    """

    fault_class: str | None
    sentence: str


def is_driver_check(check: str) -> bool:
    """Whether this policy judges the check: xid_N, sxid_N, gpu_recovery_action."""
    return check == RECOVERY_CHECK or _CHECK.fullmatch(check) is not None


def weigh(
    signal: Signal, history: Sequence[Seen], *, now: datetime, policy: XidPolicy, driver_wish: str = ""
) -> Ruling:
    """What a bad signal of the driver means.

    `history`: earlier signals of the same device and fault class, oldest first, this one not in it (`seen.remember`).
    `driver_wish`: slug of what the driver wants for the device now, where that is known; it replaces the row's action.
    """
    check = signal.entity.check
    if check in (RECOVERY_CHECK, XID_154):
        return _wish_ruling(signal, policy)
    found = _CHECK.fullmatch(check)
    assert found is not None, "not a check of the driver"
    code = int(found.group(2))
    if found.group(1) == "sxid":
        switch_row = policy.sxids.get(code)
        return _unknown_ruling(check) if switch_row is None else _sxid_ruling(signal, switch_row)
    row = policy.xids.get(code)
    if row is None:
        return _unknown_ruling(check)
    return _as_wished(_row_ruling(signal, row, history, now, policy), driver_wish, policy)


def clearing(signal: Signal, policy: XidPolicy) -> Clearing | None:
    """What a signal ends: Xid 154 to None and field 230 at none end what a reset clears, 162 ends 163."""
    check = signal.entity.check
    if check in (RECOVERY_CHECK, XID_154):
        if signal.health is Health.OK:
            return Clearing(fault_class=None, sentence="the driver wants no recovery action for this GPU any more")
        return None
    found = _CHECK.fullmatch(check)
    row = policy.xids.get(int(found.group(2))) if found is not None and found.group(1) == "xid" else None
    if row is None or row.cancels is None:
        return None
    ended = policy.xids.get(row.cancels)
    fault_class = ended.fault_class if ended is not None else f"xid_{row.cancels}"
    return Clearing(fault_class=fault_class, sentence=f"Xid {row.code} ({row.name}) ends Xid {row.cancels}")


def _row_ruling(signal: Signal, row: XidRow, history: Sequence[Seen], now: datetime, policy: XidPolicy) -> Ruling:
    rule_id = f"xid.{row.code}"
    opinion = Opinion(judgement=row.judgement, rule_id=rule_id, sentence=f"Xid {row.code} ({row.name}): {row.meaning}")
    if row.bits:
        opinion = read_registers(signal.attributes, row.bits, opinion)
    if row.code in NVLINK5_CODES:
        opinion = read_nvlink5(row.code, signal.attributes, policy.nvlink5, opinion)
    for detail in row.details:
        if signal.attributes.get(detail.attribute) == detail.equals:
            opinion = Opinion(
                judgement=detail.becomes, rule_id=f"{rule_id}.{detail.attribute}", sentence=detail.sentence
            )
    for companion in row.companions:
        if seen_within(history, companion.check, within_s=companion.within_s, now=now):
            opinion = Opinion(
                judgement=companion.becomes, rule_id=f"{rule_id}.with_{companion.check}", sentence=companion.sentence
            )
    # A consequence of something else may repeat as often as it likes.
    for repeat in () if opinion.judgement.sympathetic else row.repeats:
        times = times_seen(
            history, signal, within_s=repeat.within_s, distinct=repeat.distinct, same=repeat.same, now=now
        )
        if times >= repeat.count:
            opinion = Opinion(judgement=repeat.becomes, rule_id=f"{rule_id}.repeated", sentence=repeat.sentence)
    return _ruling(
        opinion,
        fault_class=row.fault_class,
        clears=row.clears,
        window_s=row.window_s,
        quiet_s=row.quiet_s,
        source=opinion.source or row.source,
    )


def _sxid_ruling(signal: Signal, row: SxidRow) -> Ruling:
    """The driver's own word counts where it is graver than the table."""
    judgement, sentence = row.judgement, f"SXid {row.code} ({row.name}): {row.kind.replace('_', ' ')}"
    if judgement.weight is Weight.RECORD and signal.attributes.get("severity") == "fatal":
        judgement = Judgement(weight=Weight.PROBLEM, origin=Attribution.UNKNOWN, action=Action.WAIT_OR_IGNORE)
        sentence += "; the driver calls it fatal: no new work until that is understood"
    opinion = Opinion(judgement=judgement, rule_id=f"sxid.{row.code}", sentence=sentence)
    return _ruling(opinion, fault_class=f"sxid_{row.code}", clears=row.clears, quiet_s=row.quiet_s, source=row.source)


def _ruling(
    opinion: Opinion,
    *,
    fault_class: str,
    clears: Clears,
    window_s: float | None = None,
    quiet_s: float | None = None,
    source: str,
) -> Ruling:
    return Ruling(
        weight=opinion.judgement.weight,
        fault_class=fault_class,
        clears=clears,
        window_s=window_s,
        quiet_s=quiet_s,
        origin=opinion.judgement.origin,
        action=opinion.judgement.action,
        sympathetic=opinion.judgement.sympathetic,
        rule_id=opinion.rule_id,
        sentence=opinion.sentence,
        source=source,
    )


def _wish_ruling(signal: Signal, policy: XidPolicy) -> Ruling:
    slug = signal.attributes.get("recovery_action", "")
    row = policy.wishes.get(slug)
    if row is None:
        sentence = f"the driver wants something that this policy does not know: {slug or signal.detail}"
        judgement, source = _UNKNOWN, ""
    else:
        sentence, judgement, source = row.sentence, row.judgement, row.source
    return Ruling(
        weight=judgement.weight,
        fault_class=RECOVERY_CLASS,
        clears=Clears.RESET,
        origin=judgement.origin,
        action=judgement.action,
        driver_action=slug,
        rule_id=f"wish.{slug}" if row is not None else "wish.unknown",
        sentence=sentence,
        source=source,
    )


def _as_wished(ruling: Ruling, driver_wish: str, policy: XidPolicy) -> Ruling:
    """The driver knows its device better than a table. What is only recorded stays so: the wish raises its own."""
    wish = policy.wishes.get(driver_wish)
    if wish is None or wish.slug == NO_WISH or ruling.weight is Weight.RECORD:
        return ruling
    return replace(ruling, action=wish.judgement.action, driver_action=wish.slug)


def _unknown_ruling(check: str) -> Ruling:
    return Ruling(
        weight=_UNKNOWN.weight,
        fault_class=check,
        clears=Clears.QUIET,
        quiet_s=86_400.0,
        origin=_UNKNOWN.origin,
        action=_UNKNOWN.action,
        rule_id=f"{check.split('_')[0]}.unknown",
        sentence=f"{check} is in no table of this policy: it is recorded and shown, and evicts nothing",
    )
