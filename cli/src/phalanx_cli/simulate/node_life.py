"""What becomes of a node that is taken out: rungs, the gate before return, the devices that are listed.

Pure: all chance is in the fault's own draws. Which rung is tried is the planner's own word (node_ladder); a defect that
the gate finds costs the next one, and what it misses goes back to work with the node.
"""

from __future__ import annotations

from dataclasses import dataclass

from fault_contracts.cluster_policy import LadderPolicy
from fault_contracts.remediation import Rung
from phalanx_cli.simulate.contestants import Contestant, Remedy
from phalanx_cli.simulate.costs import Costs
from phalanx_cli.simulate.faults import Fault, Need
from recovery_planner.domain import node_ladder

_LADDER = LadderPolicy()
_NEEDS = {
    Rung.RESET_GPU: Need.RESET_GPU,
    Rung.REBOOT_NODE: Need.REBOOT_NODE,
    Rung.REPLACE_NODE: Need.REPLACE_NODE,
}
_RUNGS = {need: rung for rung, need in _NEEDS.items()}
ROUNDS_MAX = 16
_ORDER = {need: place for place, need in enumerate(Need)}
_GATE_DRAW = 8
"""The first of a fault's draws that the gate uses; those before it belong to the verdicts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """How long a node is away, and what it brings back.

    Attributes:
        rung: the last that was tried.
        next_fault: what the node will fail of, `next_gap_s` after its return; None: it is well.
        found: defects that the gate found, so that no job met them.
        replaced: its device is another now.
    """

    away_s: float
    rung: Need
    next_fault: Fault | None
    next_gap_s: float
    found: int
    replaced: bool


def first_rung(policy: Contestant, fault: Fault, before: Need | None, *, listed: bool) -> Need:
    """Where to begin. `before`: the rung of a return that the node failed after too soon."""
    if policy.remedy is Remedy.REPAIR or listed or (fault.kind.of_node and not fault.kind.light):
        return Need.REPLACE_NODE
    # After a replacement another device is built in, which has no past.
    last = _RUNGS.get(before) if policy.probation and before is not None else None
    rung, _ = node_ladder.first_rung(
        Rung.RESET_GPU if fault.kind.of_node else Rung.REBOOT_NODE,
        _LADDER,
        before=None if last is Rung.REPLACE_NODE else last,
        strikes=1.0,
        device_known=fault.kind.of_node,
    )
    assert rung is not None, "the whole ladder has a rung for each"
    return _NEEDS[rung]


def above(rung: Need) -> Need:
    """The next rung up. After a replacement another device is built in, and its ladder begins at the bottom."""
    up = node_ladder.above(_RUNGS[rung], _LADDER.rungs)
    return _NEEDS[up or _LADDER.rungs[0]]


def absence(policy: Contestant, costs: Costs, fault: Fault, rung: Need) -> Absence:
    """Try rungs until the gate lets the node go."""
    away_s, found, replaced = 0.0, 0, False
    for round_number in range(ROUNDS_MAX):
        away_s += _rung_s(costs, fault, rung) + policy.gate_rounds * costs.gate_round_s
        replaced = replaced or rung is Need.REPLACE_NODE
        fixed = _ORDER[rung] >= _ORDER[fault.need]
        left, gap_s = (fault.follow, fault.follow_gap_s) if fixed else (fault, fault.again_s)
        if left is None or not _gate_finds(policy, costs, fault, round_number):
            return Absence(
                away_s=away_s,
                rung=rung,
                next_fault=left,
                next_gap_s=gap_s,
                found=found,
                replaced=replaced,
            )
        found += 1
        fault, rung = left, _after(policy, rung)
    return Absence(away_s=away_s, rung=rung, next_fault=None, next_gap_s=0.0, found=found, replaced=True)


def _after(policy: Contestant, rung: Need) -> Need:
    return above(rung) if policy.remedy is Remedy.LADDER else Need.REPLACE_NODE


def _rung_s(costs: Costs, fault: Fault, rung: Need) -> float:
    if rung is Need.RESET_GPU:
        return costs.reset_s
    return costs.reboot_s if rung is Need.REBOOT_NODE else fault.repair_s


def _gate_finds(policy: Contestant, costs: Costs, fault: Fault, round_number: int) -> bool:
    """Any of the rounds finds it; rounds are taken to be independent."""
    power = 1 - (1 - costs.gate_power) ** policy.gate_rounds
    return fault.draws[(_GATE_DRAW + round_number) % len(fault.draws)] < power
