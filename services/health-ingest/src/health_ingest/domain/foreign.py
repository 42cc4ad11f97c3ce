"""What another system says → what it means here, by a table: which check, of which node and device, and how it is.

The table is data (policies/foreign.yaml and the operator's file). Whatever it does not know is ignored with a reason,
never guessed: an alert that nobody mapped must not block a node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from fault_contracts.health import Component
from fault_contracts.ids import derived_id
from fault_contracts.payload import Health

FOREIGN = "foreign_"
"""Checks that only other systems measure begin so."""
CHECK = re.compile(r"[a-z][a-z0-9_]{1,63}")
_PLACE = re.compile(r"\{([\w./-]+)\}")
_PCI = re.compile(r"(?:([0-9a-f]{4}|[0-9a-f]{8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-7])?")
_PORT = re.compile(r"([^:\[\]]+):\d{1,5}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One thing that another system says.

    Attributes:
        source: which kind of system, a key of the table.
        name: its name for it: alert, check, condition, kind of event.
        state: its word for how it is: firing, resolved, True, unhealthy.
        fields: all that it tells, flat: `labels.node`, `data.node_id`.
        detail: its sentence for people.
        thread: what stays the same from its first bad word to its last good one.
        said: what else stays the same when it says only this again: its state, and since when.
    """

    source: str
    name: str
    state: str
    fields: Mapping[str, str]
    detail: str = ""
    thread: tuple[str, ...]
    said: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignRow:
    """One row of the table; the first that fits counts.

    Attributes:
        names: patterns with * and ?; case counts.
        check: ours; `{field}` puts in what the other system tells.
        component_id: places of the device's name, the best first; empty: the node itself. A row that names places
            fits only what tells one of them.
        states: their word → health here, before those of the source.
        why: one sentence for the answer.
    """

    names: tuple[str, ...]
    check: str
    component: Component
    component_id: tuple[str, ...] = ()
    states: Mapping[str, Health] = field(default_factory=dict)
    why: str
    reference: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignSource:
    """How one kind of system speaks.

    Attributes:
        node: places of the node's name, the best first.
        states: its word → health here.
        ignore_when: field → words with which it says that nothing is to be done.
    """

    node: tuple[str, ...]
    states: Mapping[str, Health]
    ignore_when: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rows: tuple[ForeignRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignTable:
    """Everything that is understood. `nodes`: their name of a node → ours, where they differ."""

    sources: Mapping[str, ForeignSource]
    nodes: Mapping[str, str] = field(default_factory=dict)


class Outcome(StrEnum):
    """What became of one item."""

    ACCEPTED = "accepted"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Understood:
    """The answer to one item; check and the rest are set when it was accepted."""

    outcome: Outcome
    why: str
    check: str = ""
    node_id: str = ""
    component: Component = Component.HOST
    component_id: str = ""
    health: Health = Health.UNKNOWN


def understand(told: Told, table: ForeignTable) -> Understood:
    """Look one item up."""
    source = table.sources[told.source]
    for name, words in source.ignore_when.items():
        if told.fields.get(name) in words:
            return Understood(outcome=Outcome.IGNORED, why=f"{name} is {told.fields[name]}")
    lacking = ""
    for row in source.rows:
        if not any(fnmatchcase(told.name, pattern) for pattern in row.names):
            continue
        check, missing = _filled(row.check, told.fields)
        device = _first(row.component_id, told.fields)
        if missing or (row.component_id and not device):
            if "*" in row.names:  # a row for whatever brings its fields; the name is not known by that
                continue
            lacking = lacking or missing or f"one of {', '.join(row.component_id)}"
            continue
        return _placed(told, source, row, check, device, table.nodes)
    if lacking:
        return Understood(outcome=Outcome.REFUSED, why=f"{told.name!r} is known, but {lacking} is missing")
    return Understood(outcome=Outcome.IGNORED, why=f"no row of the table has the name {told.name!r}")


def _placed(
    told: Told, source: ForeignSource, row: ForeignRow, check: str, device: str, nodes: Mapping[str, str]
) -> Understood:
    if not CHECK.fullmatch(check):
        return Understood(outcome=Outcome.REFUSED, why=f"{check[:80]!r} is no check: lower-case letters, digits and _")
    theirs = _first(source.node, told.fields)
    node_id = nodes.get(theirs, "")
    if not node_id and theirs:
        port = _PORT.fullmatch(theirs)  # `instance` of Prometheus is host:port
        host = port.group(1) if port else theirs
        node_id = nodes.get(host, host)
    if not node_id:
        return Understood(outcome=Outcome.REFUSED, why=f"no node named in {', '.join(source.node)}")
    device = pci_address(device)
    if check.startswith(FOREIGN):
        # Two alerts may mean the same here; each is a condition of its own, or the end of one would end the other.
        device = f"{device} {told.name}/{derived_id(told.source, 'thread', *told.thread)[:8]}".strip()
    if len(node_id) > 256 or len(device) > 256:
        return Understood(outcome=Outcome.REFUSED, why="a name of more than 256 characters")
    health = row.states.get(told.state) or source.states.get(told.state)
    if health is None:
        known = ", ".join(sorted({*row.states, *source.states}))
        return Understood(outcome=Outcome.REFUSED, why=f"state {told.state[:80]!r} is not one of {known}")
    return Understood(
        outcome=Outcome.ACCEPTED,
        why=row.why,
        check=check,
        node_id=node_id,
        component=row.component,
        component_id=device,
        health=health,
    )


def pci_address(name: str) -> str:
    """A PCI address as Phalanx writes it (`dddd:bb:dd`, lower case, no function); any other name as it is."""
    found = _PCI.fullmatch(name.lower())
    return f"{(found.group(1) or '0000')[-4:]}:{found.group(2)}:{found.group(3)}" if found else name


def _filled(template: str, fields: Mapping[str, str]) -> tuple[str, str]:
    """The text with its places filled, and the first place that is missing."""
    for place in _PLACE.findall(template):
        if not fields.get(place):
            return "", place
    return _PLACE.sub(lambda match: fields[match.group(1)], template), ""


def _first(places: Sequence[str], fields: Mapping[str, str]) -> str:
    return next((fields[place] for place in places if fields.get(place)), "")
