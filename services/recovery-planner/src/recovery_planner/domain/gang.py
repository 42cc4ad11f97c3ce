"""The gang record: everything that is known and decided about one job. One record, one compare-and-set."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from fault_contracts.agent import AgentPhase, JobSpec, RestartAsked
from fault_contracts.checkpoints import CheckpointRef
from fault_contracts.commands import StopMode
from fault_contracts.faults import Action, Attribution
from fault_contracts.ids import derived_id
from fault_contracts.payload import Payload, Reason
from fault_contracts.recovery import JobOutcome
from training_topology.topology import RankTable

FORMER_INSTANCES_MAX = 8
"""Lives of one agent that are remembered, to know its late reports; the bus keeps one node's reports in order."""


class Phase(StrEnum):
    """Where a gang stands. The moves between them are the table in `gang_machine`."""

    FORMING = "forming"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    DECIDING = "deciding"
    WAITING = "waiting"
    ENDED = "ended"


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
        table_version: the rank table that the agent holds, as far as we know; a start that is a change to another
            table must carry all rows.
        checkpoint_found: what lay in the folder that it watches before the job began.
        held, doubt: why its node is not to be given ranks, or is taken last; empty: nothing is known against it.
        faults, faults_over: condition ids of its node's device faults, still open or over.
        by_fitness: it is condemned because it is held; it comes back when it is not.
        blamed: a verdict that came too late for a plan blames it: it gives its place up at the next one.
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

    @property
    def is_there(self) -> bool:
        """It answers, whether it is used or not."""
        return self.standing in (Standing.PRESENT, Standing.CONDEMNED)

    @property
    def idle(self) -> bool:
        """Runs no ranks, so it may be given some."""
        return is_idle(self.phase)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the classifier said about the fault of this attempt."""

    fault_id: str
    topology_version: int
    attribution: Attribution
    cause: str
    action: Action
    reasons: tuple[Reason, ...]
    summary: str = ""
    culprit_node_id: str = ""
    provisional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One incident of the job, over all its attempts.

    Attributes:
        attempt: 1 for the first stop; one more for each fault that breaks a generation which this incident started.
        fault_version: the topology_version that broke last.
        step_before: largest step known when the incident opened; None is unknown.
        stop_mode: how the current attempt stops its ranks.
        asked: gravest level of restart that a script asked for in this attempt.
        condemned: ranks whose process must not go on although it lives.
        at_barrier: ranks that said they stand at the barrier, in this attempt.
        in_process_attempts: restarts in place that this incident has tried.
        by_notice: the stop was planned because a node gave notice; nothing is broken.
        mark_at: start of the phase that is being timed; the `*_s` fields are sums over the attempts.
    """

    incident_id: str
    attempt: int
    fault_version: int
    trigger: Reason
    node_id: str
    rank: int | None
    fault_observed_at: datetime
    opened_at: datetime
    mark_at: datetime
    dead_ranks: tuple[int, ...] = ()
    stop_mode: StopMode = StopMode.PROCESS
    asked: RestartAsked = RestartAsked.IN_PROCESS
    condemned: tuple[int, ...] = ()
    at_barrier: frozenset[int] = frozenset()
    in_process_attempts: int = 0
    by_notice: bool = False
    step_before: int | None = None
    verdict: Verdict | None = None
    all_started: bool = False
    stop_s: float | None = None
    plan_s: float | None = None
    start_s: float | None = None
    first_step_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Something to publish that is decided but not known to be published. `seq` never repeats within a gang."""

    seq: int
    payload: Payload
    cause_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """Nodes that gave notice in this generation.

    Attributes:
        at_step: every rank was asked for a checkpoint after this step.
        deadline_at: the first of the nodes goes then.
        reason: the first notice.
    """

    nodes: frozenset[str]
    at_step: int
    deadline_at: datetime
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationStart:
    """A generation and the checkpoint step it was started from; -1 is from scratch."""

    topology_version: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How the job ended. `incident_id` and `attempt` are those of EndJob's fence: a repeat is the same order."""

    outcome: JobOutcome
    reason: Reason
    summary: str
    incident_id: str
    attempt: int
    ended_at: datetime
    told_at: datetime
    """When EndJob was last sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """The record. Sets hold node_ids and speak of the table's topology_version.

    Attributes:
        born_at: start of this run of the job; a job_id that is used again after its end is a new run.
        stopped: nodes that have no ranks left since the last StopWorkers.
        started, completed: nodes whose ranks all run, or all ended with 0, in this generation.
        stepped: nodes that finished their first step in this generation.
        stepping: node_ranks that ever reported a step; only these are waited for before a gang counts as resumed.
        step_max: largest step ever reported; advisory, not written for its own sake.
        restarts: times of the restarts that are inside the window.
        starts: what each generation was started from, see `checkpoint`.
        refused: agents that do not fit this job, with the reason.
        checkpoint_found: what the first generation was started from, where it was not scratch.
        labels: of the ranks, packed, see `rank_labels`.
        preemption: who gave notice in this generation, and the checkpoint asked for.
    """

    job_id: str
    born_at: datetime
    spec: JobSpec
    phase: Phase = Phase.FORMING
    table: RankTable = field(default_factory=lambda: RankTable(topology_version=0))
    members: dict[str, Member] = field(default_factory=dict)
    arrivals: int = 0
    incident: Incident | None = None
    restarts: tuple[datetime, ...] = ()
    restart_count: int = 0
    deadline_at: datetime | None = None
    stopped: frozenset[str] = frozenset()
    started: frozenset[str] = frozenset()
    completed: frozenset[str] = frozenset()
    stepped: frozenset[str] = frozenset()
    stepping: frozenset[int] = frozenset()
    step_max: int | None = None
    starts: tuple[GenerationStart, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    checkpoint_found: CheckpointRef | None = None
    labels: str = ""
    ending: Ending | None = None
    preemption: Preemption | None = None
    effect_seq: int = 0
    pending: tuple[Effect, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes of the rank table, in node_rank order."""
        return tuple(row.node_id for row in self.table.rows)

    @property
    def alarm_at(self) -> datetime | None:
        """When this record has to be looked at again, if nothing happens before."""
        notice_at = None if self.preemption is None or not self.is_live else self.preemption.deadline_at
        return min((at for at in (self.deadline_at, notice_at) if at is not None), default=None)

    @property
    def is_live(self) -> bool:
        """Its ranks train, or begin to."""
        return self.phase in (Phase.STARTING, Phase.RUNNING)

    def is_seated(self, node_id: str) -> bool:
        """Holds a row of the table."""
        return any(row.node_id == node_id for row in self.table.rows)

    def is_present(self, node_id: str) -> bool:
        """A known agent that can be counted on."""
        member = self.members.get(node_id)
        return member is not None and member.standing is Standing.PRESENT

    def is_stray(self, member: Member) -> bool:
        """Counted as lost, or as busy without a place: once it says that it is idle, it is a spare."""
        match member.standing:
            case Standing.LOST:
                return True
            case Standing.PRESENT:
                return not member.idle and not self.is_seated(member.node_id)
            case Standing.LEFT | Standing.CONDEMNED:
                return False

    @property
    def awaited(self) -> tuple[str, ...]:
        """Nodes whose next report this gang cannot go on without. Whoever watches agents asks these first."""
        match self.phase:
            case Phase.STOPPING:
                done = self.stopped
            case Phase.STARTING:
                done = self.started | self.completed
            case Phase.FORMING | Phase.RUNNING | Phase.DECIDING | Phase.WAITING | Phase.ENDED:
                return ()
        # A condemned node's ranks, too, have to end before others take their place.
        here = {member.node_id for member in self.members.values() if member.is_there}
        return tuple(node for node in self.nodes if node not in done and node in here)


def operation_id(job_id: str, incident_id: str, attempt: int, verb: str, topology_version: int) -> str:
    """The stable id of one order: the same over every retry of it, by whichever planner."""
    return derived_id(job_id, verb, incident_id, attempt, topology_version)
