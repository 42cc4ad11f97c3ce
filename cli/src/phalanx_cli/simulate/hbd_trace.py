"""The InfiniteHBD trace (SIGCOMM'25, Apache-2.0; not part of this project): read, and made into faults.

Recorded are start, end and class of each fault. What it would have needed, and whether a fault soon after a return came
of a defect that the repair left, is not: both are assumptions, drawn from the seed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fault_contracts.faults import Attribution
from phalanx_cli.simulate.draws import Draws
from phalanx_cli.simulate.faults import (
    BASE_SHARE,
    DAY_S,
    DRAWS_EACH,
    WATCHED_S,
    Fault,
    Kind,
    LightShares,
    Need,
    Symptom,
    need_of,
)

FILE_BYTES_MAX = 64 << 20
EVENTS_MAX = 1_000_000
MACHINES = 400
"""Servers of the cluster, as its paper says; the trace names only those that failed."""
RECORDED_REPEATS = 0.31
"""Of its faults, followed by another of the node within 7 days; so this share of such followers is no chance."""

_HANDS = {
    "Power Supply",
    "Fan",
    "Motherboard",
    "Motherboard Battery",
    "CPU",
    "RAID Card",
    "Riser Card",
    "Other Failures",
}
_OPERATOR = {"Training Task Troubleshooting", "Change", "Test"}
_DRIVER = {"Operating System", "Firmware", "File System", "Software Tool"}


class TraceRefused(Exception):
    """A trace cannot be used; the text says file and reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One fault as recorded, in seconds."""

    node: str
    kind: Kind
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """The faults of a trace, oldest first, and how long it was recorded."""

    faults: tuple[Recorded, ...]
    days: float

    @property
    def node_days_down(self) -> float:
        """As it was in truth."""
        return sum(each.end_s - each.start_s for each in self.faults) / DAY_S


def read_recording(path: Path) -> Recording:
    """Pair starts with ends.

    Raises:
        TraceRefused: cannot be read, or is not such a trace.
    """
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise TraceRefused(f"{path}: is larger than {FILE_BYTES_MAX} bytes")
        rows = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TraceRefused(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise TraceRefused(f"{path}: is not JSON: {error}") from error
    if not isinstance(rows, list) or not rows or len(rows) > EVENTS_MAX:
        raise TraceRefused(f"{path}: must be a list of 1 to {EVENTS_MAX} events")
    try:
        return _paired(path, sorted(rows, key=lambda row: float(row["event_time"])))
    except (KeyError, TypeError, ValueError) as error:
        raise TraceRefused(f"{path}: an event is not of this form: {type(error).__name__}: {error}") from error


def _paired(path: Path, rows: list[dict[str, Any]]) -> Recording:
    kinds: dict[tuple[str, str], Kind] = {}
    open_since: dict[tuple[str, str, str], list[float]] = {}
    faults: list[Recorded] = []
    for row in rows:
        level, name = str(row["fault_type"]["Level"]), str(row["fault_type"]["Class"])
        key = (str(row["node_id"]), name, str(row["fault_type"].get("Desc", "")))
        at_s = float(row["event_time"]) * DAY_S
        if row["event_type"] == "fault_start":
            open_since.setdefault(key, []).append(at_s)
            continue
        if not open_since.get(key):
            raise TraceRefused(f"{path}: {key[0]} ends a fault of class {name} that did not start")
        kind = kinds.setdefault((level, name), _kind(level, name))
        faults.append(Recorded(node=key[0], kind=kind, start_s=open_since[key].pop(0), end_s=at_s))
    if not faults:
        raise TraceRefused(f"{path}: no fault has both start and end")
    faults.sort(key=lambda each: (each.start_s, each.node))
    return Recording(faults=tuple(faults), days=float(rows[-1]["event_time"]))


def _kind(level: str, name: str) -> Kind:
    cause = name.lower().replace(" ", "_")
    if name in _OPERATOR:
        # A person took the node; no policy gives it back earlier.
        return Kind(cause=cause, attribution=Attribution.PLATFORM, symptom=Symptom.LOST, light=False)
    if name in _DRIVER or level == "Software Failure":
        return Kind(cause=cause, attribution=Attribution.DRIVER, symptom=Symptom.CRASH, light=True)
    hands = level == "Hardware Failure" and name in _HANDS
    symptom = Symptom.CRASH if name in ("Unknown Error", "System Crash") else Symptom.DEVICE
    return Kind(cause=cause, attribution=Attribution.HARDWARE, symptom=symptom, light=not hands)


def recorded_trace(
    recording: Recording, *, machines: int, seed: int, shares: LightShares, shortest_first: bool = False
) -> list[Fault]:
    """The faults as a trace; which machine bears which recorded node is drawn.

    With `shortest_first` not chance but the length of the repair says which faults were light: the shortest ones. It is
    the worst case for whoever hopes to save node-days by light fixes.

    Raises:
        ValueError: fewer machines than nodes that failed.
    """
    nodes = sorted({each.node for each in recording.faults})
    if machines < len(nodes):
        raise ValueError(f"the trace has {len(nodes)} nodes that failed, and there are only {machines} machines")
    draws = Draws(f"recording {seed}")
    machine_of = dict(zip(nodes, draws.order(machines), strict=False))
    needs = _needs(recording, shares, draws, shortest_first=shortest_first)
    by_node: dict[str, list[int]] = {}
    for index, each in enumerate(recording.faults):
        by_node.setdefault(each.node, []).append(index)
    defect_share = 1 - BASE_SHARE / RECORDED_REPEATS
    heads: list[Fault] = []
    for node in nodes:
        later: Fault | None = None
        indices = by_node[node]
        # From the last to the first, so that a fault can hold the one that follows from it.
        for place in range(len(indices) - 1, -1, -1):
            each = recording.faults[indices[place]]
            fault = Fault(
                kind=each.kind,
                machine=machine_of[node],
                at_s=each.start_s,
                need=needs[indices[place]],
                repair_s=each.end_s - each.start_s,
                again_s=draws.share() * WATCHED_S,
                draws=draws.shares(DRAWS_EACH),
                follow=later,
                follow_gap_s=later.at_s - each.end_s if later is not None else 0.0,
            )
            before = recording.faults[indices[place - 1]] if place else None
            gap_s = each.start_s - before.end_s if before is not None else -1.0
            if 0 <= gap_s <= WATCHED_S and draws.share() < defect_share:
                later = fault
            else:
                later = None
                heads.append(fault)
    return sorted(heads, key=lambda fault: (fault.at_s, fault.machine))


def _needs(recording: Recording, shares: LightShares, draws: Draws, *, shortest_first: bool) -> list[Need]:
    drawn = draws.shares(len(recording.faults))
    if shortest_first:
        light = [index for index, each in enumerate(recording.faults) if each.kind.light]
        light.sort(key=lambda index: recording.faults[index].end_s - recording.faults[index].start_s)
        ranked = list(drawn)
        for place, index in enumerate(light):
            ranked[index] = place / len(light)
        drawn = tuple(ranked)
    return [need_of(each.kind, shares, drawn[index]) for index, each in enumerate(recording.faults)]
