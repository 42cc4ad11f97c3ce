"""Where nodes stand in the cluster, by their labels, and how near two of them are.

What is not known to be near is taken for far: a node without labels costs like one at the other end of the hall.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from recovery_planner.domain.member import Member

NVLINK_DOMAIN, SWITCH, RACK = "nvlink_domain", "switch", "rack"
"""Names of the labels that are read; one NVLink domain or one switch is as near as nodes get."""


@dataclass(frozen=True, slots=True, order=True)
class Stand:
    """Where a node stands. Empty: not told."""

    rack: str = ""
    switch: str = ""
    nvlink_domain: str = ""

    @property
    def is_known(self) -> bool:
        """Something was told."""
        return bool(self.rack or self.switch or self.nvlink_domain)

    @property
    def failure_domain(self) -> str:
        """The largest part that fails as one: its power and its switch are shared."""
        return self.rack or self.switch or self.nvlink_domain

    def __str__(self) -> str:
        parts = (("rack", self.rack), ("switch", self.switch), ("nvlink domain", self.nvlink_domain))
        return ", ".join(f"{name} {value}" for name, value in parts if value) or "place unknown"


NOWHERE = Stand()


def stand_of(labels: Mapping[str, str]) -> Stand:
    """Where a node with these labels stands."""
    if not labels:
        return NOWHERE
    return Stand(labels.get(RACK, ""), labels.get(SWITCH, ""), labels.get(NVLINK_DOMAIN, ""))


def distance(one: Stand, other: Stand) -> float:
    """0 behind one switch or in one NVLink domain, 0.5 in one rack, else 1."""
    if one.nvlink_domain and one.nvlink_domain == other.nvlink_domain:
        return 0.0
    if one.switch and one.switch == other.switch:
        return 0.0
    return 0.5 if one.rack and one.rack == other.rack else 1.0


def in_blocks(members: Iterable[Member]) -> list[Member]:
    """Members so that those of one rack, switch and NVLink domain follow one another.

    Blocks stand in the order in which their first member came; so do the members of a block. Without labels that is the
    order of arrival.
    """
    waiting = sorted(members, key=lambda member: member.arrival)
    if not any(member.labels for member in waiting):
        return waiting
    firsts: dict[tuple[str, ...], int] = {}
    keys: dict[str, tuple[int, int, int, int]] = {}
    for member in waiting:
        labels, came = member.labels, member.arrival
        rack, switch, domain = labels.get(RACK, ""), labels.get(SWITCH, ""), labels.get(NVLINK_DOMAIN, "")
        keys[member.node_id] = (
            firsts.setdefault((rack,), came),
            firsts.setdefault((rack, switch), came),
            firsts.setdefault((rack, switch, domain), came),
            came,
        )
    return sorted(waiting, key=lambda member: keys[member.node_id])
