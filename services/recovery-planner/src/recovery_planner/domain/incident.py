"""One incident of a job and the verdict about it, as kept in the gang record."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from fault_contracts.accounts import REASONS_KEPT, JudgedFault
from fault_contracts.agent import RestartAsked
from fault_contracts.commands import StopMode
from fault_contracts.faults import Action, Attribution
from fault_contracts.payload import Reason
from recovery_planner.domain.incident_notes import IncidentNotes

SUMMARY_KEPT = 2_048
"""Characters of a verdict's summary in the journal."""


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
    culprit_rank: int | None = None
    provisional: bool = False
    confidence: float | None = None
    condition_ids: tuple[str, ...] = ()

    @property
    def judged(self) -> JudgedFault:
        """As the journal keeps it."""
        return JudgedFault(
            fault_id=self.fault_id,
            topology_version=self.topology_version,
            attribution=self.attribution,
            cause=self.cause,
            action=self.action,
            confidence=self.confidence,
            provisional=self.provisional,
            culprit_node_id=self.culprit_node_id,
            condition_ids=self.condition_ids,
            reasons=self.reasons[:REASONS_KEPT],
            summary=self.summary[:SUMMARY_KEPT],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One incident of the job, over all its attempts.

    Attributes:
        attempt: 1 for the first stop; one more for each fault that breaks a generation which this incident started.
        fault_version: the topology_version that broke last.
        step_before: step that the broken generation had reached; None is unknown.
        stop_mode: how the current attempt stops its ranks.
        asked: gravest level of restart that a script asked for in this attempt.
        condemned: ranks whose process must not go on although it lives.
        at_barrier: ranks that said they stand at the barrier, in this attempt.
        in_process_attempts: restarts in place that this incident has tried.
        by_notice: the stop was planned because a node gave notice; nothing is broken.
        stuck: why the ranks of the new generation stand still, in a job that only observes: nobody stops them for it.
        notes: what its account is made of.
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
    stuck: Reason | None = None
    all_started: bool = False
    stop_s: float | None = None
    plan_s: float | None = None
    start_s: float | None = None
    first_step_s: float | None = None
    notes: IncidentNotes = field(default_factory=IncidentNotes)
