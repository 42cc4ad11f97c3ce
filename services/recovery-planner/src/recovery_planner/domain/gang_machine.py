"""The one table of a gang's moves. docs/state-machines.md is drawn from it by tools/draw_state_machines.py.

Reports of agents never move a gang by themselves: they are written down, and `settle` asks for the moves below.
"""

from __future__ import annotations

from enum import StrEnum

from recovery_planner.domain.gang import Phase


class Trigger(StrEnum):
    """What moves a gang."""

    FORMED = "formed"
    """As many agents as nodes are there."""
    FAULT = "fault"
    """A rank, an agent or a start failed: the gang cannot make progress."""
    STOPPED = "stopped"
    """No reachable agent has ranks left."""
    PLANNED = "planned"
    """A plan places every node_rank."""
    NO_CAPACITY = "no_capacity"
    """A node_rank has no node to go to."""
    RESUMED = "resumed"
    """All ranks run, and step where they report steps."""
    ENDED = "ended"
    """Done, given up, or left by its agents."""
    REUSED = "reused"
    """The job_id of an ended job is used for a new run."""


class IllegalMove(Exception):
    """A move that the table does not have. Nothing was changed."""


TABLE: dict[tuple[Phase, Trigger], Phase] = {
    (Phase.FORMING, Trigger.FORMED): Phase.STARTING,
    (Phase.FORMING, Trigger.ENDED): Phase.ENDED,
    (Phase.STARTING, Trigger.FAULT): Phase.STOPPING,
    (Phase.STARTING, Trigger.RESUMED): Phase.RUNNING,
    (Phase.STARTING, Trigger.ENDED): Phase.ENDED,
    (Phase.RUNNING, Trigger.FAULT): Phase.STOPPING,
    (Phase.RUNNING, Trigger.ENDED): Phase.ENDED,
    (Phase.STOPPING, Trigger.STOPPED): Phase.DECIDING,
    (Phase.STOPPING, Trigger.ENDED): Phase.ENDED,
    (Phase.DECIDING, Trigger.PLANNED): Phase.STARTING,
    (Phase.DECIDING, Trigger.NO_CAPACITY): Phase.WAITING,
    (Phase.DECIDING, Trigger.ENDED): Phase.ENDED,
    (Phase.WAITING, Trigger.PLANNED): Phase.STARTING,
    (Phase.WAITING, Trigger.ENDED): Phase.ENDED,
    (Phase.ENDED, Trigger.REUSED): Phase.FORMING,
}


def target(phase: Phase, trigger: Trigger) -> Phase:
    """The phase that follows.

    Raises:
        IllegalMove: the table has no such move.
    """
    try:
        return TABLE[phase, trigger]
    except KeyError:
        raise IllegalMove(f"a gang that is {phase} has no move for {trigger}") from None
