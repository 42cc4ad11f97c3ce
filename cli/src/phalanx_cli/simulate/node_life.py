"""What becomes of a node that is taken out by others than ours: repair, and for some a gate before it works again.

Pure: all chance is in the fault's own draws. A defect that the gate finds costs another repair, and what it misses goes
back to work with the node. Ours is in `tending`.
"""

from __future__ import annotations

from dataclasses import dataclass

from phalanx_cli.simulate.costs import Costs
from phalanx_cli.simulate.faults import Fault, Need

ROUNDS_MAX = 16
_GATE_DRAW = 8
"""The first of a fault's draws that the gate uses; those before it belong to the verdicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """What a node that was away brings back.

    Attributes:
        away_s: how long it was.
        next_fault: what the node will fail of, `next_gap_s` after its return; None: it is well.
        found: defects that the gate found, so that no job met them.
        replaced: its device is another now.
        doubt_s: so long after its return it is taken last.
    """

    away_s: float
    next_fault: Fault | None
    next_gap_s: float
    found: int
    replaced: bool
    doubt_s: float = 0.0


def repaired(gate_rounds: int, costs: Costs, fault: Fault) -> Absence:
    """Repair it, until the gate lets it go."""
    away_s, found = 0.0, 0
    for number in range(ROUNDS_MAX):
        away_s += fault.repair_s + gate_rounds * costs.gate_round_s
        left, gap_s = fault.follow, fault.follow_gap_s
        if left is None or not gate_finds(fault, number, gate_rounds, costs):
            return Absence(away_s=away_s, next_fault=left, next_gap_s=gap_s, found=found, replaced=True)
        found += 1
        fault = left
    return Absence(away_s=away_s, next_fault=None, next_gap_s=0.0, found=found, replaced=True)


def gate_finds(fault: Fault, number: int, rounds: int, costs: Costs) -> bool:
    """Any of so many rounds finds it; rounds are taken to be independent."""
    power = 1 - (1 - costs.gate_power) ** rounds
    return fault.draws[_GATE_DRAW + number % (len(fault.draws) - _GATE_DRAW)] < power


def mended(fault: Fault, done: Need) -> tuple[Fault | None, float]:
    """What the node has after that was done to it, and how soon it will show."""
    order = list(Need)
    fixed = order.index(done) >= order.index(fault.need)
    return (fault.follow, fault.follow_gap_s) if fixed else (fault, fault.again_s)
