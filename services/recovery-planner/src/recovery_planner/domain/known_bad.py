"""Devices that must not come back: by what stays with a device when it gets another node, another name, another uuid.

The ledger of health-ingest knows devices that failed by themselves. This is the planner's own memory of what was in the
nodes that it gave up: a pool may hand the same machine out again under another name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fault_contracts.hardware import NodeStanding
from fault_contracts.inventory import DeviceIdentity
from fault_contracts.payload import Health, Reason
from recovery_planner.domain.node_life import NodeLife

LISTED_MAX = 512
"""Identities kept of one node: 256 devices with a name and a board each."""


def identities(device: DeviceIdentity) -> tuple[str, ...]:
    """What names a device for ever: its uuid or GUID; and its board, by serial and vendor data together."""
    found = [f"id:{device.device_id}"]
    if device.board_serial and device.pci_vendor_data:
        found.append(f"board:{device.board_serial}:{device.pci_vendor_data}")
    return tuple(found)


def to_list(standing: NodeStanding | None, gpu_uuid: str) -> tuple[str, ...]:
    """What is listed with a node that is given up: the device that is blamed, or all where none is."""
    devices = () if standing is None else standing.devices
    blamed = [device for device in devices if device.device_id == gpu_uuid]
    named = (f"id:{gpu_uuid}",) if gpu_uuid and not blamed else ()
    chosen: Sequence[DeviceIdentity] = blamed if gpu_uuid else devices
    found = (*named, *(each for device in chosen for each in identities(device)))
    return tuple(dict.fromkeys(found))[:LISTED_MAX]


def book_of(lives: Iterable[NodeLife]) -> dict[str, str]:
    """Identity → the node that was given up with it."""
    return {identity: life.node_id for life in lives for identity in life.listed}


def known_bad(node_id: str, standing: NodeStanding | None, book: Mapping[str, str]) -> Reason | None:
    """Why a node must not work because of what is built in; None: nothing is known against it."""
    if standing is None:
        return None
    for held in standing.held:
        sentence = f"{held.device_id} in {node_id} is in quarantine: {held.reason}"[:2_048]
        return Reason(rule_id="pool.device_held", sentence=sentence)
    for device in standing.devices:
        for identity in identities(device):
            origin = book.get(identity)
            if origin is not None and origin != node_id:
                sentence = f"{node_id} carries {device.device_id}, with which {origin} was given up"
                return Reason(rule_id="pool.device_listed", sentence=sentence)
    return None


def is_told(standing: NodeStanding | None) -> bool:
    """Its host role has said what is in it."""
    return standing is not None and standing.inventory_at is not None and standing.fit is not Health.UNKNOWN
