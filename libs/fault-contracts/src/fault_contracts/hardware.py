"""Bad hardware by immutable identity, what changed about it, and whether a node may be given work. Key: node_id."""

from __future__ import annotations

import json
from enum import StrEnum

from pydantic import Field, ValidationError

from fault_contracts.faults import Action, Attribution
from fault_contracts.health import Component, ConditionRaised, DeviceEvidence, Tier
from fault_contracts.inventory import DeviceIdentity, DeviceKind
from fault_contracts.payload import At, Health, Name, Payload, Reason, Sentence

UNPLACED = "unplaced"
"""node_id of a device that no node has reported: a person may quarantine one that lies on a shelf."""
NODE_RECORD_VERSION = 1
STRIKES_KEPT = 16
"""Strikes shown with their texts; the score and the count go on."""
EVIDENCE_KEPT = 128
"""Ids of evidence that a record knows as taken in, so that a copy changes nothing."""

NODE_COMPONENTS = frozenset({Component.GPU, Component.NVSWITCH, Component.NIC, Component.DRIVER, Component.HOST})
"""What belongs to a node whatever job runs on it."""
_CONDEMNS = frozenset({Action.RESET_GPU, Action.REBOOT_NODE, Action.REPLACE_NODE})
_CONCERNS_NOBODY = frozenset({Action.WAIT_OR_IGNORE, Action.DONT_RETRY_NOTIFY_USER})


class Hold(StrEnum):
    """Whether a device may be used. Closed."""

    FREE = "free"
    QUARANTINED = "quarantined"
    PROBATION = "probation"
    """It may be used; one strike puts it back into quarantine."""


class Strike(Payload):
    """One failure that was this device's own."""

    evidence_id: Name
    """Of the condition, or of the verdict."""
    node_id: Name
    check: Name
    reason: Sentence
    struck_at: At


class LedgerEntry(Payload):
    """What is held against one device. It moves with the device, not with the node."""

    device_id: Name
    """gpu_uuid or GUID under which it was first listed."""
    kind: DeviceKind = DeviceKind.OTHER
    other_ids: tuple[str, ...] = Field(default=(), max_length=16)
    """Further uuids under which the same board (serial and vendor data) came back."""
    board_serial: str = Field(default="", max_length=256)
    board_part_number: str = Field(default="", max_length=256)
    pci_vendor_data: str = Field(default="", max_length=64)
    name: str = Field(default="", max_length=256)
    node_id: Name = UNPLACED
    """Where it was last seen."""
    seen_at: At | None = None
    score: float = Field(default=0.0, ge=0)
    """Strikes with decay, as of `scored_at`."""
    scored_at: At | None = None
    strikes_total: int = Field(default=0, ge=0)
    strikes: tuple[Strike, ...] = Field(default=(), max_length=STRIKES_KEPT)
    """The newest, oldest first."""
    hold: Hold = Hold.FREE
    reason: Reason | None = None
    """Why it is held as it is; None: it never was held."""
    by: str = Field(default="", max_length=256)
    """Who held or released it: a person, or health-ingest."""
    since: At | None = None
    until: At | None = None
    """End of the quarantine or the probation; None: until somebody releases it."""
    evidence_ids: tuple[str, ...] = Field(default=(), max_length=EVIDENCE_KEPT)
    version: int = Field(default=0, ge=0)
    """Grows with each change."""


class HardwareChange(StrEnum):
    """What happened to a device's entry. Open: an unknown member reads as `other`."""

    STRUCK = "struck"
    QUARANTINED = "quarantined"
    PROBATION = "probation"
    """Its quarantine ended by date."""
    RELEASED = "released"
    """A person let it go (it is on probation), or its probation is over (it is free)."""
    MOVED = "moved"
    """It was found on another node."""
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> HardwareChange | None:
        return cls.OTHER if isinstance(value, str) else None


class HardwareChanged(Payload):
    """An entry of the ledger changed."""

    node_id: Name
    """Where the device was last seen, or `unplaced`."""
    device_id: Name
    change: HardwareChange
    entry: LedgerEntry
    by: Name
    reason: Reason
    until: At | None = None
    changed_at: At


class OpenCondition(Payload):
    """A condition of a node that is not over."""

    condition_id: Name
    component: Component
    component_id: str = Field(default="", max_length=256)
    check: Name
    tier: Tier
    reason: Sentence
    device: DeviceEvidence | None = None
    raised_at: At


class HeldDevice(Payload):
    """A quarantined device that is in the node."""

    device_id: Name
    reason: Sentence
    by: str = Field(default="", max_length=256)
    until: At | None = None


class NodeStanding(Payload):
    """Whether a node may be given work, and why. Record of the bucket `nodes`, and content of NodeStandingChanged."""

    node_id: Name
    fit: Health = Health.UNKNOWN
    """bad: not to be given ranks. unknown: no host role has told what is in the node."""
    reasons: tuple[Reason, ...] = Field(default=(), max_length=16)
    """Why it is bad, gravest first; empty when it is not."""
    doubts: tuple[Reason, ...] = Field(default=(), max_length=16)
    """Problems that are tolerated: a node without any is preferred."""
    conditions: tuple[OpenCondition, ...] = Field(default=(), max_length=256)
    held: tuple[HeldDevice, ...] = Field(default=(), max_length=256)
    devices: tuple[DeviceIdentity, ...] = Field(default=(), max_length=256)
    instance_id: str = Field(default="", max_length=256)
    boot_id: str = Field(default="", max_length=64)
    inventory_at: At | None = None
    updated_at: At | None = None
    version: int = Field(default=0, ge=0)
    """Grows with each change, so that an older copy is known as such."""


def standing_of_record(raw: bytes) -> NodeStanding:
    """The standing in a record of the bucket `nodes`, which health-ingest writes: `{"v": 1, "standing": {...}, ...}`.

    Raises:
        ValueError: written by another version, or no such record.
    """
    try:
        record = json.loads(raw)
        if record["v"] != NODE_RECORD_VERSION:
            raise ValueError(f"it is of version {record['v']}; this program reads {NODE_RECORD_VERSION}")
        return NodeStanding.model_validate(record["standing"])
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"at {'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (KeyError, TypeError) as error:
        raise ValueError(f"it is no record of a node: {type(error).__name__}: {error}") from error


class NodeStandingChanged(Payload):
    """A node became fit or unfit for work, or the reasons are others now."""

    node_id: Name
    standing: NodeStanding
    changed_at: At


def is_of_node(raised: ConditionRaised) -> bool:
    """About a node or a device in it, not about a rank; its job_id, where it has one, only says who worked there."""
    ranks = raised.worker is not None or raised.faulted is not None
    return raised.component in NODE_COMPONENTS and not ranks


def costs_work(device: DeviceEvidence | None) -> bool:
    """Whether a failure with this evidence stops a gang. A user's fault and a mere consequence never do."""
    if device is None or device.sympathetic or device.origin is Attribution.USER:
        return False
    return device.action not in _CONCERNS_NOBODY


def costs_node(device: DeviceEvidence | None) -> bool:
    """Whether a failure with this evidence takes the node out of use until it is over."""
    return device is not None and costs_work(device) and device.action in _CONDEMNS
