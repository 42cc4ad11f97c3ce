"""What the planner decided and how it ended: the journal of a job. Key: job_id."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from fault_contracts.accounts import IncidentAccount, JobAccount, JudgedFault
from fault_contracts.faults import Attribution
from fault_contracts.health import ConditionRaised
from fault_contracts.payload import At, Name, Payload, Reason, Sentence
from fault_contracts.recovery_level import RecoveryLevel


class JobOutcome(StrEnum):
    """How a job ended. Closed: agents turn it into their exit code."""

    SUCCEEDED = "succeeded"
    FAILED_USER = "failed_user"
    FAILED_BUDGET = "failed_budget"
    FAILED_NO_CAPACITY = "failed_no_capacity"
    CANCELLED = "cancelled"


class JournalEntry(Payload):
    """What all entries of a job's journal share. A missing number is a hole in the record, and is shown as one."""

    entry: int = Field(default=0, ge=0)
    """Place in the journal of this run of the job, from 1 without gaps; 0: written by a planner that did not count."""


class GangFormed(JournalEntry):
    """All nodes of a job are there; ranks are assigned."""

    job_id: Name
    topology_version: int = Field(ge=1)
    nodes: tuple[str, ...]
    spares: tuple[str, ...] = ()
    world_size: int = Field(ge=1)
    formed_at: At


class NodeLost(JournalEntry):
    """The agent of a node no longer answers: it or its machine is gone."""

    job_id: Name
    node_id: Name
    topology_version: int = Field(ge=0)
    incident_id: str = ""
    reason: Reason
    lost_at: At


class NodeFaulted(JournalEntry):
    """A device of a node of the gang failed: the gang is stopped because of it, or was being stopped already."""

    job_id: Name
    node_id: Name
    topology_version: int = Field(ge=1)
    incident_id: str = ""
    condition: ConditionRaised
    reason: Reason
    faulted_at: At


class IncidentOpened(JournalEntry):
    """A gang cannot make progress, or is to go on otherwise; it is being stopped."""

    incident_id: Name
    job_id: Name
    topology_version: int = Field(ge=1)
    trigger: Reason
    node_id: str = ""
    rank: int | None = None
    planned: bool = False
    """Nothing is broken: a node gave notice or is emptied, or the gang grows. No verdict is due."""
    fault_observed_at: At
    opened_at: At


class AttemptOpened(JournalEntry):
    """The generation that an open incident had started broke as well: it is stopped, and the next attempt begins."""

    incident_id: Name
    job_id: Name
    attempt: int = Field(ge=2)
    topology_version: int = Field(ge=1)
    trigger: Reason
    node_id: str = ""
    rank: int | None = None
    fault_observed_at: At
    opened_at: At


class RecoveryHeld(JournalEntry):
    """The gang stands still and its plan has to wait, for a node or for the end of a backoff."""

    incident_id: Name
    job_id: Name
    attempt: int = Field(ge=1)
    topology_version: int = Field(ge=1)
    waits_for: Name
    """capacity | backoff."""
    node_ranks: tuple[int, ...] = Field(default=(), max_length=1_024)
    """Places that no node is there for."""
    until: At | None = None
    """Then the wait is over, whatever came."""
    reason: Reason
    held_at: At


class CauseLinked(JournalEntry):
    """The cause of this incident is shared: other jobs, or other nodes, have it at the same time. It costs no node."""

    incident_id: Name
    job_id: Name
    topology_version: int = Field(ge=1)
    family: Name
    """What is shared: network, storage, power, cooling, fabric, driver, platform."""
    attribution: Attribution
    cause: Name
    place: str = Field(default="", max_length=512)
    """What the nodes have in common, e.g. switch=s12; empty: nothing that was told."""
    jobs: tuple[str, ...] = Field(default=(), max_length=64)
    nodes: tuple[str, ...] = Field(default=(), max_length=64)
    incidents: tuple[str, ...] = Field(default=(), max_length=64)
    reason: Reason
    linked_at: At


class NodeAssignment(Payload):
    """One row of the rank table as sent in commands and in the journal."""

    node_rank: int = Field(ge=0)
    node_id: Name
    address: Name
    nproc: int = Field(ge=1)


class RecoveryPlanned(JournalEntry):
    """The plan of one attempt."""

    incident_id: Name
    job_id: Name
    attempt: int = Field(ge=1)
    level: RecoveryLevel
    topology_version: int = Field(ge=1)
    nnodes: int = Field(default=0, ge=0)
    """Size of the gang from now on, and `nnodes_before` until now; they differ when it shrinks or grows. 0: untold."""
    nnodes_before: int = Field(default=0, ge=0)
    world_size: int = Field(default=0, ge=0)
    world_size_before: int = Field(default=0, ge=0)
    fault_id: str = ""
    attribution: Attribution = Attribution.UNKNOWN
    cause: str = ""
    ranks_replaced: tuple[int, ...] = ()
    """Ranks that died or moved; with level in_process exactly those that get a new process."""
    granularity: Name = "all"
    """Whose processes are replaced, for people: none | rank | ranks | node | nodes | all."""
    moves: tuple[NodeAssignment, ...] = ()
    """Rows that a different node holds from now on."""
    checkpoint_step: int | None = None
    checkpoint_stepped_over: int | None = None
    """Of a checkpoint that is given up as poisoned: the same fault came right after it was loaded."""
    restarts_left: int = Field(ge=0)
    reasons: tuple[Reason, ...]
    verdict: JudgedFault | None = None
    """The verdict that was acted on."""
    planned_at: At


class TrainingResumed(JournalEntry):
    """Every node finished a step of the new generation (or started it, where steps are not reported)."""

    incident_id: Name
    job_id: Name
    topology_version: int = Field(ge=1)
    step: int | None = None
    by_step: bool
    """False: no worker reports steps; resumed means that all workers run."""
    resumed_at: At


class PhaseTimes(Payload):
    """Durations of an incident in seconds; None where a phase did not happen or was not seen."""

    detect_s: float | None = None
    """Worker's end as its agent saw it → incident opened."""
    stop_s: float | None = None
    """Opened → every surviving agent stopped."""
    plan_s: float | None = None
    """Stopped → plan decided (includes waiting for the verdict, for a node, and for a backoff)."""
    wait_s: float | None = None
    """Of plan_s: waiting for a node, or for the end of a backoff."""
    start_s: float | None = None
    """Plan → every agent started its workers."""
    first_step_s: float | None = None
    """Started → first step of the new generation on every node."""
    total_s: float | None = None
    steps_lost: int | None = None
    """Largest step reported before the fault minus the checkpoint's step."""


class IncidentClosed(JournalEntry):
    """How an incident ended, with what it cost."""

    incident_id: Name
    job_id: Name
    outcome: Name
    """recovered | failed | superseded."""
    topology_version: int = Field(ge=1)
    attempts: int = Field(ge=1)
    attribution: Attribution
    cause: str = ""
    phases: PhaseTimes
    account: IncidentAccount | None = None
    reason: Reason
    closed_at: At


class JobEnded(JournalEntry):
    """The last word on a job."""

    job_id: Name
    outcome: JobOutcome
    topology_version: int = Field(ge=0)
    restarts: int = Field(ge=0)
    reason: Reason
    summary: Sentence = ""
    account: JobAccount | None = None
    ended_at: At


class ActionWithheld(JournalEntry):
    """What the planner would have done and did not: the job or the cluster only observes, or a limit forbids it."""

    job_id: Name
    incident_id: str = ""
    topology_version: int = Field(ge=0)
    node_id: str = ""
    action: Name
    """stop | condemn_node | end_job | reset_gpu | reboot_node | replace_node | ..."""
    withheld_by: Name
    """observe | dry_run | breaker."""
    fault_id: str = ""
    cause: str = ""
    reason: Reason
    withheld_at: At
