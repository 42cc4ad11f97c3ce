"""The one table of a node's moves. docs/state-machines.md is drawn from it by tools/draw_state_machines.py."""

from __future__ import annotations

from enum import StrEnum

from fault_contracts.remediation import NodePhase
from recovery_planner.domain.gang_machine import IllegalMove


class NodeTrigger(StrEnum):
    """What moves a node."""

    BLAMED = "blamed"
    """A verdict or its own standing asks for an action on it."""
    DROPPED = "dropped"
    """What was said against it was taken back, or could not be followed in time."""
    DROPPED_ON_PROBATION = "dropped_on_probation"
    """The same, and its probation goes on."""
    TAKEN = "taken"
    """The breaker lets it be taken out of use."""
    HELD = "held"
    """A person takes it out of use."""
    DRAIN = "drain"
    """It is to be emptied: for the ladder, or because a person wants it."""
    EMPTIED = "emptied"
    """No ranks are there: the ladder begins."""
    VACATED = "vacated"
    """No ranks are there: a person may have it."""
    RUNG_DONE = "rung_done"
    RUNG_FAILED = "rung_failed"
    """The next one is tried."""
    NOT_CLEAN = "not_clean"
    """The gate found something, or it is still bad: the next rung is tried."""
    CLEAN = "clean"
    """As many clean validations as the policy wants."""
    PROVEN = "proven"
    """Its probation is over."""
    GIVEN_UP = "given_up"
    """No rung is left, or nothing can be learnt of it."""
    RETIRED = "retired"
    """The pool took it back."""
    RECOGNISED = "recognised"
    """It carries a device that is listed."""
    ARRIVED = "arrived"
    """The pool delivered it."""
    RELEASED = "released"
    """A person lets it go: first the gate."""
    FREED = "freed"
    """A person lets it go, and there is no gate."""


P, T = NodePhase, NodeTrigger
NODE_TABLE: dict[tuple[NodePhase, NodeTrigger], NodePhase] = {
    **{(phase, T.BLAMED): P.SUSPECT for phase in (P.OK, P.PROBATION)},
    **{(phase, T.DROPPED): P.OK for phase in (P.SUSPECT, P.QUARANTINED, P.DRAINING)},
    **{(phase, T.DROPPED_ON_PROBATION): P.PROBATION for phase in (P.SUSPECT, P.QUARANTINED, P.DRAINING)},
    (P.SUSPECT, T.TAKEN): P.QUARANTINED,
    **{(phase, T.HELD): P.QUARANTINED for phase in (P.OK, P.SUSPECT, P.PROBATION, P.VALIDATING)},
    (P.QUARANTINED, T.DRAIN): P.DRAINING,
    (P.DRAINING, T.EMPTIED): P.REMEDIATING,
    (P.DRAINING, T.VACATED): P.QUARANTINED,
    (P.REMEDIATING, T.RUNG_DONE): P.VALIDATING,
    (P.REMEDIATING, T.RUNG_FAILED): P.REMEDIATING,
    (P.REMEDIATING, T.RETIRED): P.REPLACED,
    (P.REMEDIATING, T.GIVEN_UP): P.LISTED,
    (P.VALIDATING, T.NOT_CLEAN): P.REMEDIATING,
    (P.VALIDATING, T.CLEAN): P.PROBATION,
    (P.VALIDATING, T.GIVEN_UP): P.LISTED,
    (P.PROBATION, T.PROVEN): P.OK,
    **{
        (phase, T.RECOGNISED): P.LISTED
        for phase in (P.OK, P.SUSPECT, P.QUARANTINED, P.DRAINING, P.VALIDATING, P.PROBATION)
    },
    (P.OK, T.ARRIVED): P.VALIDATING,
    **{(phase, T.RELEASED): P.VALIDATING for phase in (P.QUARANTINED, P.DRAINING, P.LISTED, P.REPLACED)},
    **{
        (phase, T.FREED): P.OK
        for phase in (P.SUSPECT, P.QUARANTINED, P.DRAINING, P.VALIDATING, P.PROBATION, P.LISTED, P.REPLACED)
    },
}


def node_target(phase: NodePhase, trigger: NodeTrigger) -> NodePhase:
    """The phase that follows.

    Raises:
        IllegalMove: the table has no such move.
    """
    try:
        return NODE_TABLE[phase, trigger]
    except KeyError:
        raise IllegalMove(f"a node that is {phase} has no move for {trigger}") from None
