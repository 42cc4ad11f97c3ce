"""The gang record: everything that is known and decided about one job. One record, one compare-and-set."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from fault_contracts.agent import JobSpec
from fault_contracts.checkpoints import CheckpointRef
from fault_contracts.ids import derived_id
from fault_contracts.payload import Payload, Reason
from fault_contracts.recovery import JobOutcome
from recovery_planner.domain.books import Books
from recovery_planner.domain.elastic_state import ElasticState, nnodes_at
from recovery_planner.domain.incident import Incident
from recovery_planner.domain.load_trial import LoadTrial
from recovery_planner.domain.member import Member, Standing
from recovery_planner.domain.pace import Pace
from recovery_planner.domain.past_restarts import PastRestart
from training_topology.topology import RankTable


class Phase(StrEnum):
    """Where a gang stands. The moves between them are the table in `gang_machine`."""

    FORMING = "forming"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    DECIDING = "deciding"
    WAITING = "waiting"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Something to publish that is decided but not known to be published. `seq` never repeats within a gang.

    Attributes:
        run: birth of the run of the job that decided it (`born_at`, ISO), where that is not the gang's own: what an
            ended run left unpublished keeps its message id when the job begins anew.
    """

    seq: int
    payload: Payload
    cause_id: str = ""
    run: str = ""


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
    asked: tuple[str, ...] = ()
    """The last reports that an EndJob was sent for, or is owed for."""


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
        step_now: largest step reported in this generation; advisory as well.
        pace: how long steps take; advisory as well.
        books: where the time went, see `books`.
        journal_seq: entries that the journal of this run has.
        restarts: times of the restarts that are inside the window.
        withheld: ids of what an observing job was spared, see `withheld`.
        past: restarts with level and cause, as far as a policy may still ask for them.
        starts: what each generation was started from, see `checkpoint`.
        trial: whether the checkpoint of this generation may be poisoned, see `step_back`.
        refused: agents that do not fit this job, with the reason.
        checkpoint_found: what the first generation was started from, where it was not scratch.
        labels: of the ranks, packed, see `rank_labels`.
        elastic: changes of size, made and to come, see `elastic`.
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
    past: tuple[PastRestart, ...] = ()
    withheld: tuple[str, ...] = ()
    deadline_at: datetime | None = None
    stopped: frozenset[str] = frozenset()
    started: frozenset[str] = frozenset()
    completed: frozenset[str] = frozenset()
    stepped: frozenset[str] = frozenset()
    stepping: frozenset[int] = frozenset()
    step_max: int | None = None
    step_now: int | None = None
    pace: Pace | None = None
    books: Books = field(default_factory=Books)
    journal_seq: int = 0
    starts: tuple[GenerationStart, ...] = ()
    trial: LoadTrial = field(default_factory=LoadTrial)
    refused: dict[str, str] = field(default_factory=dict)
    checkpoint_found: CheckpointRef | None = None
    labels: str = ""
    ending: Ending | None = None
    preemption: Preemption | None = None
    elastic: ElasticState = field(default_factory=ElasticState)
    effect_seq: int = 0
    pending: tuple[Effect, ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes of the rank table, in node_rank order."""
        return tuple(self.table.node_ids)

    @property
    def is_over(self) -> bool:
        """The job has ended, and nothing is left to be said about it: no effect, and no repeat of the end."""
        return self.phase is Phase.ENDED and not self.pending and self.deadline_at is None

    @property
    def alarm_at(self) -> datetime | None:
        """When this record has to be looked at again, if nothing happens before."""
        notice_at = None if self.preemption is None or not self.is_live else self.preemption.deadline_at
        shrink_at = self.elastic.shrink_at if self.phase is Phase.WAITING else None
        regrow_at = self.elastic.look_at if self.phase is Phase.RUNNING else None
        alarms = (self.deadline_at, notice_at, self.fault_deadline_at, shrink_at, regrow_at)
        return min((at for at in alarms if at is not None), default=None)

    @property
    def awaits_checkpoint(self) -> bool:
        """Something is to follow the next checkpoint, so its confirmations have to be told."""
        return self.preemption is not None or self.elastic.regrow is not None

    def world_size_at(self, topology_version: int) -> int | None:
        """How many ranks a generation has or had; None: it is not known any more."""
        nnodes = nnodes_at(self.elastic, topology_version, first=self.spec.nnodes)
        return None if nnodes is None else nnodes * self.spec.nproc_per_node

    @property
    def fault_deadline_at(self) -> datetime | None:
        """When the job must be training again; None: its policy sets no such limit, or nothing is broken."""
        policy = self.spec.policy
        if policy is None or policy.fault_deadline_s is None or self.incident is None:
            return None
        return self.incident.opened_at + timedelta(seconds=policy.fault_deadline_s)

    @property
    def is_live(self) -> bool:
        """Its ranks train, or begin to."""
        return self.phase in (Phase.STARTING, Phase.RUNNING)

    def is_seated(self, node_id: str) -> bool:
        """Holds a row of the table."""
        return node_id in self.table.node_ids

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
        return tuple(self._awaited())

    @property
    def awaits_somebody(self) -> bool:
        """Whether there are such nodes; of thousands, the first one is enough to know."""
        return any(True for _ in self._awaited())

    def _awaited(self) -> Iterator[str]:
        match self.phase:
            case Phase.STOPPING:
                done = self.stopped
            case Phase.STARTING:
                done = self.started | self.completed
            case Phase.FORMING | Phase.RUNNING | Phase.DECIDING | Phase.WAITING | Phase.ENDED:
                return
        for node in self.table.node_ids:
            # A condemned node's ranks, too, have to end before others take their place.
            if node not in done and (member := self.members.get(node)) is not None and member.is_there:
                yield node


def operation_id(job_id: str, incident_id: str, attempt: int, verb: str, topology_version: int) -> str:
    """The stable id of one order: the same over every retry of it, by whichever planner."""
    return derived_id(job_id, verb, incident_id, attempt, topology_version)
