"""Process mode of one agent: which phase follows which event. One table, and nothing else decides it.

INIT leads to READY; a start to RUNNING; a stop through STOPPING back to READY. A rank that dies makes RUNNING into
FAULTED, where its siblings go on until the planner says stop. COMPLETED means that every rank ended with 0; a stop
takes even that back, because another node may need the gang once more. From everywhere it is one step to SHUTDOWN.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from fault_contracts.agent import AgentPhase


class AgentEvent(StrEnum):
    """What may happen to the worker group of this node."""

    CONNECTED = "connected"
    """The agent is on the bus and may be given work."""
    START = "start"
    """A start command for this node was accepted."""
    START_FAILED = "start_failed"
    """At least one worker could not be started; those that did are ended."""
    STOP = "stop"
    """A stop command was accepted, or the node is no longer in the gang."""
    STOPPED = "stopped"
    """No worker is left, or the limit for that passed."""
    RANK_FAILED = "rank_failed"
    """A worker ended by itself and not with exit code 0, or it lives and cannot go on."""
    ALL_COMPLETED = "all_completed"
    """Every worker ended with exit code 0."""
    LEAVE = "leave"
    """The job is over, or a signal told the agent to go."""
    AT_BARRIER = "at_barrier"
    """In-process mode: each rank stands at the barrier or was ended."""
    FALL_BACK = "fall_back"
    """In-process mode: ranks that stand at the barrier have to be ended, and the process mode holds again."""
    CHECKPOINT = "checkpoint"
    """The gang is asked for a checkpoint; training goes on."""
    STAND_DOWN = "stand_down"
    """No planner is heard, and the ranks are stopped by local policy (dead_man.py)."""


_P = AgentPhase
_E = AgentEvent

TRANSITIONS: Mapping[tuple[AgentPhase, AgentEvent], AgentPhase] = MappingProxyType(
    {
        (_P.INIT, _E.CONNECTED): _P.READY,
        (_P.INIT, _E.LEAVE): _P.SHUTDOWN,
        (_P.READY, _E.START): _P.RUNNING,
        (_P.READY, _E.STOP): _P.STOPPING,  # a repeat for a lost answer: there is nothing to end, and that is said
        (_P.READY, _E.LEAVE): _P.SHUTDOWN,
        (_P.RUNNING, _E.RANK_FAILED): _P.FAULTED,
        (_P.RUNNING, _E.ALL_COMPLETED): _P.COMPLETED,
        (_P.RUNNING, _E.START_FAILED): _P.STOPPING,
        (_P.RUNNING, _E.STOP): _P.STOPPING,
        (_P.RUNNING, _E.LEAVE): _P.SHUTDOWN,
        (_P.RUNNING, _E.CHECKPOINT): _P.RUNNING,
        (_P.RUNNING, _E.STAND_DOWN): _P.STOPPING,
        (_P.FAULTED, _E.RANK_FAILED): _P.FAULTED,
        (_P.FAULTED, _E.START_FAILED): _P.STOPPING,
        (_P.FAULTED, _E.STOP): _P.STOPPING,
        (_P.FAULTED, _E.LEAVE): _P.SHUTDOWN,
        (_P.FAULTED, _E.STAND_DOWN): _P.STOPPING,
        (_P.COMPLETED, _E.STOP): _P.STOPPING,
        (_P.COMPLETED, _E.LEAVE): _P.SHUTDOWN,
        (_P.STOPPING, _E.STOPPED): _P.READY,
        (_P.STOPPING, _E.LEAVE): _P.SHUTDOWN,
    }
)


class TransitionRefused(Exception):
    """The table has no such transition; nothing was changed."""

    def __init__(self, phase: AgentPhase, event: AgentEvent) -> None:
        super().__init__(f"{event} is not possible in phase {phase}")
        self.phase = phase
        self.event = event


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One step of the table, as it is logged."""

    before: AgentPhase
    event: AgentEvent
    after: AgentPhase


Table = Mapping[tuple[AgentPhase, AgentEvent], AgentPhase]


def step(phase: AgentPhase, event: AgentEvent, *, table: Table = TRANSITIONS) -> Transition:
    """Look up what follows, in process mode unless another mode's table is given.

    Raises:
        TransitionRefused: the table does not have it.
    """
    after = table.get((phase, event))
    if after is None:
        raise TransitionRefused(phase, event)
    return Transition(before=phase, event=event, after=after)
