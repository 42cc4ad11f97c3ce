"""What incidents and jobs cost: the figures that goodput, ETTR and SLOs are made of. Carried by the journal.

One rank counts as one GPU. Seconds of several GPUs at once are `gpu_s`. A figure that nobody measured is None, never 0.
"""

from __future__ import annotations

from pydantic import Field

from fault_contracts.faults import Action, Attribution
from fault_contracts.payload import At, Name, Payload, Reason, Sentence
from fault_contracts.recovery_level import RecoveryLevel

CAUSES_MAX = 64
"""Kinds of faults that one job is charged for by name; what comes after them is charged to OTHER_CAUSES."""
OTHER_CAUSES = "other_causes"
ATTEMPTS_MAX = 16
"""Attempts of one incident that are told one by one; the counts cover all of them."""
NODES_TAKEN_MAX = 256
REASONS_KEPT = 4
"""Of a verdict, the weightiest; FAULTS has all of them for its 90 days."""


class JudgedFault(Payload):
    """A verdict as the planner took it: what of FaultClassified has to outlive the stream FAULTS."""

    fault_id: Name
    topology_version: int = Field(ge=0)
    attribution: Attribution
    cause: Name
    action: Action
    confidence: float | None = Field(default=None, ge=0, le=1)
    provisional: bool = False
    culprit_node_id: str = Field(default="", max_length=256)
    condition_ids: tuple[str, ...] = Field(default=(), max_length=64)
    reasons: tuple[Reason, ...] = Field(default=(), max_length=REASONS_KEPT)
    summary: Sentence = ""


class NodeTaken(Payload):
    """A place of the gang that another node has from now on."""

    node_rank: int = Field(ge=0)
    node_id: Name
    """Who has it now."""
    from_node_id: str = Field(default="", max_length=256)
    """Who had it; the same node, where it came back."""
    because: Sentence = ""
    """Why the node before gave its place up."""


class IncidentAccount(Payload):
    """What one incident cost, at its close."""

    levels: tuple[RecoveryLevel, ...] = Field(default=(), max_length=ATTEMPTS_MAX)
    """As planned, one for each attempt that got a plan."""
    faults: tuple[JudgedFault, ...] = Field(default=(), max_length=ATTEMPTS_MAX)
    """The verdict of each attempt that had one, oldest first."""
    nodes_taken: tuple[NodeTaken, ...] = Field(default=(), max_length=NODES_TAKEN_MAX)
    linked_to: tuple[str, ...] = Field(default=(), max_length=64)
    """Incidents of other jobs that have the same cause (CauseLinked)."""
    planned: bool = False
    """Nothing broke: the gang was stopped on notice, and no restart was charged."""
    ranks: int = Field(ge=0)
    """Of the gang that broke."""
    ranks_after: int = Field(ge=0)
    """Of the gang that went on; 0: none did."""
    down_s: float = Field(ge=0)
    """Fault → training again, or → the end of the job."""
    down_gpu_s: float = Field(ge=0)
    """down_s of every rank of the gang that broke."""
    steps_redone: int | None = Field(default=None, ge=0)
    """None: no rank told steps."""
    step_s: float | None = Field(default=None, gt=0)
    """How long a step of this gang took before."""
    redone_gpu_s: float | None = Field(default=None, ge=0)
    """steps_redone at step_s, by every rank of the gang that broke."""


class CauseCost(Payload):
    """All incidents of a job that had one cause."""

    attribution: Attribution
    cause: str = Field(default="", max_length=256)
    """Slug of docs/causes.md, `planned_stop`, or OTHER_CAUSES; empty: no verdict."""
    incidents: int = Field(default=0, ge=0)
    attempts: int = Field(default=0, ge=0)
    nodes_taken: int = Field(default=0, ge=0)
    down_s: float = Field(default=0.0, ge=0)
    down_gpu_s: float = Field(default=0.0, ge=0)
    steps_redone: int = Field(default=0, ge=0)
    redone_gpu_s: float = Field(default=0.0, ge=0)


class JobAccount(Payload):
    """Where the time of a job went, from `since` until `until`.

    waiting_s + training_s + down_s is the time between the two.
    """

    since: At
    """Its first agent came; later, where an older planner kept no books."""
    until: At
    ranks: int = Field(ge=0)
    """Of the newest generation."""
    waiting_s: float = Field(ge=0)
    """Before the first generation ran: agents and processes were still coming."""
    training_s: float = Field(ge=0)
    down_s: float = Field(ge=0)
    """Fault → training again, over all incidents."""
    waiting_gpu_s: float = Field(ge=0)
    training_gpu_s: float = Field(ge=0)
    down_gpu_s: float = Field(ge=0)
    spare_gpu_s: float = Field(ge=0)
    """Of nodes that were there and had no ranks."""
    redone_s: float = Field(ge=0)
    """Of training_s: steps that had been done before and were lost."""
    redone_gpu_s: float = Field(ge=0)
    incidents: int = Field(ge=0)
    unpriced: int = Field(default=0, ge=0)
    """Incidents whose lost steps are not in the figures, because nobody told steps or their pace."""
    steps: int | None = Field(default=None, ge=0)
    """The largest step that was reported."""
    steps_redone: int = Field(default=0, ge=0)
    best_step_s: float | None = Field(default=None, gt=0)
    """The best pace that this job kept for a while: what its steps are measured against."""
    ettr: float | None = Field(default=None, ge=0, le=1)
    """(training_s - redone_s) / all of the time. None: no time has passed. Too high where `unpriced` is above 0."""
    goodput: float | None = Field(default=None, ge=0, le=1)
    """(training_gpu_s - redone_gpu_s) / all GPU-seconds, spares included."""
    causes: tuple[CauseCost, ...] = Field(default=(), max_length=CAUSES_MAX + 1)
