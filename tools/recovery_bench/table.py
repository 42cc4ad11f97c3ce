"""Figures of several runs: medians, ratios, the printed table and the JSON. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from recovery_bench.cells import Cell, Fault, Name, unlike_default


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Median, least and largest of some seconds."""

    median_s: float
    min_s: float
    max_s: float
    runs: int


def spread(values_s: Sequence[float]) -> Spread:
    """Of at least one value."""
    return Spread(median_s=median(values_s), min_s=min(values_s), max_s=max(values_s), runs=len(values_s))


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What the medians say; None where one of the two was not run."""

    torchrun_over_phalanx: float | None
    phalanx_over_floor: float | None
    overhead_s: float | None
    """Phalanx minus floor."""


def compare(first_steps: Mapping[str, Spread]) -> Comparison:
    """Ratios of the medians."""
    torchrun, phalanx, floor = (first_steps.get(name) for name in ("torchrun", "phalanx", "floor"))
    return Comparison(
        torchrun_over_phalanx=torchrun.median_s / phalanx.median_s if torchrun and phalanx else None,
        phalanx_over_floor=phalanx.median_s / floor.median_s if phalanx and floor else None,
        overhead_s=phalanx.median_s - floor.median_s if phalanx and floor else None,
    )


def lines(figures: Mapping[str, Mapping[str, Spread]]) -> list[str]:
    """A table: for each contestant, seconds from the fault to each point."""
    out = [f"{'':18} {'':14} {'median':>9} {'min':>9} {'max':>9}   runs"]
    for name, points in figures.items():
        for point, values in points.items():
            spans = "".join(f" {value_s:8.3f}s" for value_s in (values.median_s, values.min_s, values.max_s))
            out.append(f"{name:18} {point:14}{spans}   {values.runs}")
    return out


def verdict(found: Comparison) -> list[str]:
    """The three figures that are promised, and whether they hold."""
    out = []
    if found.torchrun_over_phalanx is not None:
        out.append(f"torchrun / Phalanx   {found.torchrun_over_phalanx:6.1f}   (at least 10 promised)")
    if found.phalanx_over_floor is not None and found.overhead_s is not None:
        out.append(f"Phalanx / floor      {found.phalanx_over_floor:6.2f}")
        out.append(f"Phalanx - floor      {found.overhead_s * 1000:6.0f} ms (at most 150 promised)")
    return out


_HEADINGS = {
    Fault.KILL: "kill -9 of a rank",
    Fault.RAISE: "exception",
    Fault.NODE: "kill -9 of an agent",
    Fault.STOP: "SIGSTOP of a rank",
}
_NAMES = {Name.PHALANX: "Phalanx", Name.IN_PROCESS: "Phalanx, re-executable"}


def pasted(first_steps: Mapping[Cell, Spread], missing: Mapping[Cell, str]) -> list[str]:
    """The Markdown table of docs/benchmarks.md: contestants down, faults across, median (least to largest)."""
    cells = {*first_steps, *missing}
    faults = [fault for fault in Fault if any(cell.fault is fault for cell in cells)]
    out = [f"| | {' | '.join(_HEADINGS[fault] for fault in faults)} |", "|---" * (len(faults) + 1) + "|"]
    notes: list[str] = []
    for name in Name:
        if all(cell.name is not name for cell in cells):
            continue
        row = [_pasted_cell(Cell(name=name, fault=fault), first_steps, missing, notes) for fault in faults]
        out.append(f"| {_NAMES.get(name, str(name))} | {' | '.join(row)} |")
    return out if not notes else [*out, "", *notes]


def _pasted_cell(cell: Cell, known: Mapping[Cell, Spread], missing: Mapping[Cell, str], notes: list[str]) -> str:
    values, reason = known.get(cell), missing.get(cell, "")
    if values is not None:
        reason = unlike_default(cell)
    mark = ""
    if reason:
        note = f"{cell.name}, {cell.fault}: {reason}."
        notes.append(f"[{len(notes) + 1}] {note}  ")
        mark = f" [{len(notes)}]"
    if values is None:
        return f"n/a{mark}" if reason else ""
    return f"{values.median_s:.3f} ({values.min_s:.3f} to {values.max_s:.3f}){mark}"
