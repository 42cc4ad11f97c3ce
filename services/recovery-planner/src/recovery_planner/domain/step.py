"""One event in, the next record and its reasons out: the whole planner as one pure function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from fault_contracts.agent import (
    AgentHeartbeat,
    AgentLeft,
    AgentReported,
    CheckpointReported,
    CommandRefused,
    StepReported,
    WorkerExited,
    WorkersCompleted,
    WorkersStarted,
    WorkersStopped,
)
from fault_contracts.faults import FaultClassified
from fault_contracts.lone_agent import AgentActedAlone
from fault_contracts.payload import Reason
from fault_contracts.preemption import PreemptionNoticed
from fault_contracts.rank_faults import RanksFaulted
from recovery_planner.domain import membership, node_faults, nodes_report, preemption, verdict, worker_reports
from recovery_planner.domain.accounting import keep_books
from recovery_planner.domain.checkpoint_history import CheckpointHistory
from recovery_planner.domain.draft import Draft
from recovery_planner.domain.gang import Gang
from recovery_planner.domain.membership import AgentLost
from recovery_planner.domain.node_faults import NodeFaultCleared, NodeFaultSeen
from recovery_planner.domain.node_fit import NOTHING_KNOWN, Fits
from recovery_planner.domain.node_fitness import NodeStandingSeen, weigh
from recovery_planner.domain.nodes_report import NodesReport
from recovery_planner.domain.policy import Policy
from recovery_planner.domain.preemption import NodeWithdrawn
from recovery_planner.domain.rank_labels import RanksLabelled, ranks_labelled
from recovery_planner.domain.settle import settle
from recovery_planner.domain.shared_causes import Sightings


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineExpired:
    """Time passed. Whether it matters is read from the record."""


Event = (
    AgentReported
    | AgentHeartbeat
    | AgentLeft
    | AgentLost
    | WorkerExited
    | RanksFaulted
    | WorkersStopped
    | WorkersStarted
    | WorkersCompleted
    | StepReported
    | CommandRefused
    | FaultClassified
    | RanksLabelled
    | PreemptionNoticed
    | NodeWithdrawn
    | AgentActedAlone
    | CheckpointReported
    | NodeFaultSeen
    | NodeFaultCleared
    | NodeStandingSeen
    | DeadlineExpired
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What one event did.

    Attributes:
        gang: the next record; what is to be published is in its `pending`.
        reasons: why, or why nothing happened.
        durable: whether the record must be written before anything else is done.
        ignored: the event does not fit the record. Normal after a redelivery; but whoever decides on a copy has to
            make sure that the copy is the newest before the event is forgotten.
    """

    gang: Gang
    reasons: tuple[Reason, ...]
    durable: bool
    ignored: bool


def new_gang(report: AgentReported, *, now: datetime) -> Gang:
    """The empty record of a job, made when its first agent reports; what that agent wants is what the job is."""
    return Gang(job_id=report.job_id, born_at=now, spec=report.spec)


def step(
    gang: Gang,
    event: Event,
    *,
    now: datetime,
    policy: Policy,
    history: CheckpointHistory,
    cause_id: str = "",
    fits: Fits = NOTHING_KNOWN,
    sightings: Sightings = (),
) -> Step:
    """Decide. Idempotent: an event that was handled before changes nothing but may be explained again.

    Args:
        gang: the record.
        event: what happened.
        now: aware UTC.
        policy: limits.
        history: confirmed checkpoints of the job, read only when a plan is made.
        cause_id: id of the message that brought the event.
        fits: standings of nodes, read when a member comes or its node's standing changed.
        sightings: faults of other nodes and jobs, read when a verdict would cost a node.

    Raises:
        IllegalMove: a defect: a decision asked for a move that the table does not have. Nothing was changed.
    """
    draft = Draft(gang, now=now, policy=policy, history=history, cause_id=cause_id, fits=fits, sightings=sightings)
    _take(draft, event)
    if isinstance(event, AgentReported | AgentHeartbeat | WorkersStopped | NodeStandingSeen):
        weigh(draft, event.node_id)  # whoever comes, or comes back, is as good as its node
    return _come_to_rest(draft)


def step_together(
    gang: Gang,
    reports: Sequence[NodesReport],
    *,
    now: datetime,
    policy: Policy,
    history: CheckpointHistory,
    cause_id: str = "",
    fits: Fits = NOTHING_KNOWN,
    sightings: Sightings = (),
) -> Step:
    """Decide on the reports of many nodes at once: all are written down, and then the gang moves as far as it can.

    As `step` for one after another, in an order in which those that complete something come last. What is published
    has the cause `cause_id`: of the last report.

    Raises:
        IllegalMove: as `step`.
    """
    draft = Draft(gang, now=now, policy=policy, history=history, cause_id=cause_id, fits=fits, sightings=sightings)
    nodes_report.take_in(draft, reports)
    for report in reports:
        if isinstance(report, WorkersStopped):
            weigh(draft, report.node_id)
    return _come_to_rest(draft)


def _come_to_rest(draft: Draft) -> Step:
    settle(draft)
    if draft.durable:
        keep_books(draft)
    return Step(
        gang=draft.gang,
        reasons=tuple(draft.reasons),
        durable=draft.durable and draft.gang != draft.before,
        ignored=draft.ignored,
    )


def _take(draft: Draft, event: Event) -> None:
    """Write down what the event says."""
    match event:
        case AgentReported():
            membership.agent_reported(draft, event)
        case AgentHeartbeat():
            membership.agent_beat(draft, event)
        case AgentLeft():
            membership.agent_left(draft, event)
        case AgentLost():
            membership.agent_lost(draft, event)
        case WorkerExited():
            worker_reports.worker_exited(draft, event)
        case RanksFaulted():
            worker_reports.ranks_faulted(draft, event)
        case WorkersStopped() | WorkersStarted() | WorkersCompleted() | StepReported():
            nodes_report.take_in(draft, (event,))
        case CommandRefused():
            worker_reports.command_refused(draft, event)
        case FaultClassified():
            verdict.fault_classified(draft, event)
        case RanksLabelled():
            ranks_labelled(draft, event)
        case PreemptionNoticed():
            preemption.preemption_noticed(draft, event)
        case NodeWithdrawn():
            preemption.node_withdrawn(draft, event)
        case AgentActedAlone():
            worker_reports.acted_alone(draft, event)
        case NodeFaultSeen():
            node_faults.node_fault_seen(draft, event)
        case NodeFaultCleared():
            node_faults.node_fault_cleared(draft, event)
        case NodeStandingSeen() | CheckpointReported() | DeadlineExpired():
            pass  # what follows is read from the history and the record
