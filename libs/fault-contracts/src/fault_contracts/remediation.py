"""What is done about a node, from the first doubt to its return: phases, rungs, and the messages that tell of them."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from fault_contracts.payload import At, Name, Payload, Reason, Sentence


class NodePhase(StrEnum):
    """Where a node stands. The moves between them are the planner's table (domain/node_machine.py)."""

    OK = "ok"
    SUSPECT = "suspect"
    """Something speaks against it; it is not taken out (yet): the breaker, or a dry run, may keep it."""
    QUARANTINED = "quarantined"
    """It gets no ranks. Those that run there go on to their job's next stop."""
    DRAINING = "draining"
    """As quarantined, and something is to be done to it as soon as no ranks are there."""
    REMEDIATING = "remediating"
    VALIDATING = "validating"
    """It is tried out before it may work again."""
    PROBATION = "probation"
    """It works; one fault takes it one rung up."""
    LISTED = "listed"
    """Out of use until a person releases it: the ladder has no rung left, or it carries a device that is listed."""
    REPLACED = "replaced"
    """Given back to the pool."""


OUT_OF_USE = frozenset(set(NodePhase) - {NodePhase.OK, NodePhase.SUSPECT, NodePhase.PROBATION})
"""Phases in which a node gets no ranks."""


class Rung(StrEnum):
    """What is done to a node, in rising order of what it costs."""

    RESET_GPU = "reset_gpu"
    REBOOT_NODE = "reboot_node"
    REPLACE_NODE = "replace_node"


class NodeTended(Payload):
    """A node went to another phase, something was ordered of it, or would have been. Key: node_id."""

    node_id: Name
    before: NodePhase
    phase: NodePhase
    rung: Rung | None = None
    action: str = Field(default="", max_length=64)
    """What was ordered, or what was withheld; empty: a move alone."""
    withheld_by: str = Field(default="", max_length=64)
    """observe | dry_run | breaker: it was not done. Empty: it was."""
    operation_id: str = Field(default="", max_length=256)
    job_id: str = Field(default="", max_length=256)
    """Where the fault was that began this."""
    fault_id: str = Field(default="", max_length=256)
    cause: str = Field(default="", max_length=256)
    successor: str = Field(default="", max_length=256)
    """The node that came in its place."""
    until: At | None = None
    """When it is looked at again, if nothing happens before."""
    next: Sentence = ""
    """What comes next, for a person."""
    by: Name = "recovery-planner"
    """Who: a person, or the planner."""
    reason: Reason
    tended_at: At


class BreakerState(StrEnum):
    """Whether nodes may be taken out. Closed."""

    CLOSED = "closed"
    """They may."""
    OPEN = "open"
    """None is."""
    HALF_OPEN = "half_open"
    """One is, on trial; if it comes back well, the breaker closes."""


class BreakerMoved(Payload):
    """The circuit breaker of remediation opened, tries, or closed. Key: breaker."""

    breaker: Name = "nodes"
    state: BreakerState
    nodes_out: int = Field(ge=0)
    nodes_known: int = Field(ge=0)
    taken_in_window: int = Field(ge=0)
    reason: Reason
    moved_at: At
