"""Whether a node may be given work: from its open conditions, and from quarantined devices that are built in.

bad: a device needs the machine, or a quarantined one is in it. unknown: no host role has told what is in it. A
tolerated problem is a doubt: it keeps nobody out, but others are preferred.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from fault_contracts.faults import Attribution
from fault_contracts.hardware import (
    HeldDevice,
    Hold,
    LedgerEntry,
    NodeStanding,
    OpenCondition,
    costs_node,
)
from fault_contracts.health import ConditionRaised, DeviceEvidence, Tier
from fault_contracts.inventory import InventoryReported
from fault_contracts.payload import Health, Reason

CONDITIONS_MAX = 256
"""Open conditions kept for one node; with so many nobody reads further, and the node is bad long since."""
OVER_KEPT = 256
"""Conditions that are over and remembered, so that a copy of their raising opens nothing."""
REASONS_MAX = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """What is kept about a node: the standing, and what is over."""

    standing: NodeStanding
    over: tuple[str, ...] = field(default=())

    @property
    def said(self) -> tuple[Health, tuple[Reason, ...], tuple[Reason, ...]]:
        """What others are told when it changes."""
        return (self.standing.fit, self.standing.reasons, self.standing.doubts)


def raised(state: NodeState, condition: ConditionRaised, *, now: datetime) -> NodeState:
    """A condition of the node is open, or graver than it was."""
    if condition.condition_id in state.over:
        return state
    opened = OpenCondition(
        condition_id=condition.condition_id,
        component=condition.component,
        component_id=condition.component_id,
        check=condition.check,
        tier=condition.tier,
        reason=condition.reason,
        device=condition.device,
        raised_at=condition.raised_at,
    )
    known = {each.condition_id: each for each in state.standing.conditions}
    before = known.get(opened.condition_id)
    if before is not None and (before.tier is Tier.FAILURE or before.tier is opened.tier):
        return state  # a copy, or one that was overtaken
    conditions = {**known, opened.condition_id: opened}
    # Failures stay when there are too many.
    kept = sorted(conditions.values(), key=lambda each: (each.tier is not Tier.FAILURE, each.raised_at))
    return _with(state, now, conditions=tuple(kept[:CONDITIONS_MAX]))


def cleared(state: NodeState, condition_id: str, *, now: datetime) -> NodeState:
    """A condition is over."""
    if condition_id in state.over:
        return state
    left = tuple(each for each in state.standing.conditions if each.condition_id != condition_id)
    changed = _with(state, now, conditions=left)
    return replace(changed, over=(*state.over, condition_id)[-OVER_KEPT:])


def inventoried(
    state: NodeState, report: InventoryReported, entries: tuple[LedgerEntry, ...], *, now: datetime
) -> NodeState:
    """What is built in now. `entries` are those of the ledger for these devices."""
    known_at = state.standing.inventory_at
    if known_at is not None and report.reported_at < known_at:
        return state
    held = tuple(_held(entry) for entry in entries if entry.hold is Hold.QUARANTINED)
    return _with(
        state,
        now,
        devices=report.devices,
        held=held,
        instance_id=report.instance_id,
        boot_id=report.boot_id,
        inventory_at=report.reported_at,
    )


def entry_changed(state: NodeState, entry: LedgerEntry, *, now: datetime) -> NodeState:
    """A device that is or was here is held, let go, or somewhere else. The entry is the newest: messages overtake."""
    held = [each for each in state.standing.held if each.device_id != entry.device_id]
    if entry.hold is Hold.QUARANTINED and entry.node_id == state.standing.node_id:
        held.append(_held(entry))
    if tuple(held) == state.standing.held:
        return state
    return _with(state, now, held=tuple(held))


def _held(entry: LedgerEntry) -> HeldDevice:
    sentence = entry.reason.sentence if entry.reason is not None else ""
    return HeldDevice(device_id=entry.device_id, reason=sentence, by=entry.by, until=entry.until)


def _with(state: NodeState, now: datetime, **fields: Any) -> NodeState:
    grown = state.standing.model_copy(update=fields)
    if grown == state.standing:
        return state
    reasons = [*map(_held_reason, grown.held)]
    doubts: list[Reason] = []
    for each in grown.conditions:
        if each.tier is Tier.FAILURE and costs_node(each.device):
            reasons.append(_reason("node.fault", each))
        elif not _is_nobodys(each.device):
            doubts.append(_reason("node.problem", each))
    best = Health.UNKNOWN if grown.inventory_at is None else Health.OK
    fit = Health.BAD if reasons else best
    standing = grown.model_copy(
        update={
            "fit": fit,
            "reasons": tuple(reasons[:REASONS_MAX]),
            "doubts": tuple(doubts[:REASONS_MAX]),
            "updated_at": now,
            "version": state.standing.version + 1,
        }
    )
    return replace(state, standing=standing)


def _is_nobodys(device: DeviceEvidence | None) -> bool:
    """A user's own fault, or a mere consequence: it says nothing about the node."""
    return device is not None and (device.sympathetic or device.origin is Attribution.USER)


def _held_reason(held: HeldDevice) -> Reason:
    until = "" if held.until is None else f" until {held.until:%Y-%m-%d %H:%M} UTC"
    sentence = f"{held.device_id} is in quarantine{until} (by {held.by or 'unknown'}): {held.reason}"
    return Reason(rule_id="node.device_held", sentence=sentence[:2_048])


def _reason(rule_id: str, open_: OpenCondition) -> Reason:
    name = (open_.device.gpu_uuid if open_.device is not None else "") or open_.component_id
    code = "" if open_.device is None or open_.device.xid is None else f" (Xid {open_.device.xid})"
    who = f"{open_.component} {name}: " if name else ""
    sentence = f"{who}{open_.reason}{code or f' ({open_.check})'}"
    return Reason(rule_id=rule_id, sentence=sentence[:2_048], evidence_ids=(open_.condition_id,))
