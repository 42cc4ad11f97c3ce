"""Faults of one cause on several nodes at the same time: what they share is broken, and no node is to pay for it.

A switch that fails looks like a bad adapter on each node behind it; a rack without power like many bad machines. Only
causes that nodes can share count: an uncorrectable error of a GPU's memory is that GPU's, also when two have one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from fault_contracts.faults import Attribution

AT_ONCE = timedelta(minutes=5)
"""As the judge's: the longest time-outs of collectives differ by minutes."""
NODES_MIN = 3
JOBS_MIN = 2
PLACE_LABELS = ("switch", "rack", "nvlink_domain", "zone")
"""What nodes may have in common, nearest first; see `nearness`."""


class Family(StrEnum):
    """What nodes can share."""

    NETWORK = "network"
    STORAGE = "storage"
    POWER = "power"
    COOLING = "cooling"
    PLATFORM = "platform"


_WORDS: Mapping[Family, tuple[str, ...]] = {
    Family.NETWORK: (
        "nic", "nic_fault", "ib_link_flap", "fabric_outage", "fabric_transient", "name_resolution", "pod_network",
        "nic_link", "nic_flap", "nic_link_event", "nic_rate", "nic_errors",
    ),
    Family.STORAGE: (
        "object_store_unavailable", "storage_unavailable", "storage_stale_mount", "shared_fs_visibility",
        "storage_read_only", "volume_mount_failed",
    ),
    Family.POWER: (
        "psu_or_power_fault", "power_brake_asserted", "rack_power_limited", "facility_power_outage", "gpu_power_brake",
    ),
    Family.COOLING: ("facility_cooling", "cooling_failed", "thermal_slowdown", "gpu_thermal"),
}  # fmt: skip
SHARED_BY: Mapping[str, Family] = {word: family for family, words in _WORDS.items() for word in words}
"""By the slug of a cause (docs/causes.md), or of a check of health-ingest. What only one node can have is not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A fault of one node, as somebody saw it.

    Attributes:
        job_id, incident_id: of the job that broke of it; empty: a condition of a node that no job has broken of yet.
        cause: slug of the verdict, or check of the condition.
        evidence_id: the verdict, or the condition.
        labels: where the node stands.
    """

    at: datetime
    node_id: str
    family: Family
    cause: str
    evidence_id: str
    job_id: str = ""
    incident_id: str = ""
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """Faults that have one cause, the asked one among them.

    Attributes:
        place: `switch=s12` and the like; empty: nothing that was told.
    """

    family: Family
    place: str
    jobs: tuple[str, ...]
    nodes: tuple[str, ...]
    incidents: tuple[str, ...]
    evidence_ids: tuple[str, ...]
    sentence: str


Sightings = Iterable[Sighting]


def family_of(cause: str, attribution: Attribution, *, costs_node: bool) -> Family | None:
    """What is shared when this cause is; None: it cannot be.

    A platform's fault that would cost a node may be of anything that nodes share; one that costs none is no question.
    """
    if attribution is Attribution.USER:
        return None
    known = SHARED_BY.get(cause)
    return Family.PLATFORM if known is None and costs_node and attribution is Attribution.PLATFORM else known


def linked(own: Sighting, sightings: Sightings) -> Link | None:
    """What else has the cause of this fault: on at least 3 nodes, or in 2 jobs on different nodes; None: it is alone.

    Two jobs on one node speak of that node. Where all nodes say where they stand and it is nowhere the same, nothing
    is shared, but for storage, which is far from all of them.
    """
    near = [
        each
        for each in sightings
        if each.family is own.family
        and abs(each.at - own.at) <= AT_ONCE
        and (own.family is not Family.PLATFORM or each.cause == own.cause)
    ]
    links = (_link(own, place, at_place) for place, at_place in _by_place(own, near))
    return next((link for link in links if link is not None), None)


def _link(own: Sighting, place: str, near: list[Sighting]) -> Link | None:
    found = (own, *(each for each in near if each.evidence_id != own.evidence_id))
    nodes = sorted({each.node_id for each in found if each.node_id})
    jobs = sorted({each.job_id for each in found if each.job_id})
    if len(nodes) < NODES_MIN and not (len(jobs) >= JOBS_MIN and len(nodes) >= JOBS_MIN):
        return None
    where = f" behind {place}" if place else ""
    seconds = int(AT_ONCE.total_seconds())
    return Link(
        family=own.family,
        place=place,
        jobs=tuple(jobs),
        nodes=tuple(nodes),
        incidents=tuple(sorted({each.incident_id for each in found if each.incident_id})),
        evidence_ids=tuple(sorted({each.evidence_id for each in found})),
        sentence=(
            f"{len(nodes)} nodes and {len(jobs)} jobs{where} have a fault of {own.family} within {seconds} s"
            f" ({own.cause} on {own.node_id or 'no node'}): what they share is broken, and costs no node"
        ),
    )


def _by_place(own: Sighting, near: list[Sighting]) -> Iterator[tuple[str, list[Sighting]]]:
    """What may be shared, nearest place first; at last no place at all: then whoever stands elsewhere is left out."""
    mine = dict(own.labels)
    if own.family is not Family.STORAGE:
        for name in PLACE_LABELS:
            if name in mine:
                yield f"{name}={mine[name]}", [each for each in near if dict(each.labels).get(name) == mine[name]]
        near = [each for each in near if not _comparable(mine, dict(each.labels))]
    yield "", near


def _comparable(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return any(name in one and name in other for name in PLACE_LABELS)
