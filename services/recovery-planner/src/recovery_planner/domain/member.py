"""One agent of a job as the planner knows it, and whether it can be counted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from fault_contracts.agent import AgentPhase
from fault_contracts.checkpoints import CheckpointRef

FORMER_INSTANCES_MAX = 8
"""Lives of one agent that are remembered, to know its late reports; the bus keeps one node's reports in order."""


class Standing(StrEnum):
    """Whether an agent can be counted on."""

    PRESENT = "present"
    LOST = "lost"
    LEFT = "left"
    CONDEMNED = "condemned"
    """There, but its hardware is blamed: not used until its standing is ok, or, where only a verdict says so, never."""


def is_idle(phase: AgentPhase) -> bool:
    """No ranks. FAULTED is not idle: the siblings of the dead rank still run."""
    return phase in (AgentPhase.INIT, AgentPhase.READY, AgentPhase.COMPLETED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One agent of the job. It is in the gang when the rank table has its node, else a spare.

    Attributes:
        arrival: place in the order in which agents first came.
        phase: what its workers do, as last reported.
        reported_at: newest report that `phase` was taken from; an older one that comes late is ignored.
        master_port: reserved on the node for the store of the next generation.
        in_process: every rank of the node has announced a re-executable block.
        table_version: the first rank table of those that the agent was there for, up to the present one; 0: it has
            missed one, and a start that gives it a place must carry all rows.
        checkpoint_found: what lay in the folder that it watches before the job began.
        held, doubt: why its node is not to be given ranks, or is taken last; empty: nothing is known against it.
        faults, faults_over: condition ids of its node's device faults, still open or over.
        by_fitness: it is condemned because it is held; it comes back when it is not.
        blamed: a verdict that came too late for a plan blames it: it gives its place up at the next one.
        labels: where its node stands: rack, switch, nvlink_domain, see `nearness`.
    """

    node_id: str
    instance_id: str
    address: str
    master_port: int
    arrival: int
    reported_at: datetime
    node_rank_wanted: int | None = None
    phase: AgentPhase = AgentPhase.READY
    standing: Standing = Standing.PRESENT
    in_process: bool = False
    table_version: int = 0
    former_instances: tuple[str, ...] = ()
    checkpoint_found: CheckpointRef | None = None
    held: str = ""
    doubt: str = ""
    faults: tuple[str, ...] = ()
    faults_over: tuple[str, ...] = ()
    by_fitness: bool = False
    blamed: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_there(self) -> bool:
        """It answers, whether it is used or not."""
        return self.standing in (Standing.PRESENT, Standing.CONDEMNED)

    @property
    def idle(self) -> bool:
        """Runs no ranks, so it may be given some."""
        return is_idle(self.phase)
