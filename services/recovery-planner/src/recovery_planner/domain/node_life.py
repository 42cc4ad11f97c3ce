"""What is kept of a node under remediation. One record a node, one compare-and-set, unpublished effects in it.

A node that nothing was ever said against has no record.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fault_contracts.faults import Action
from fault_contracts.payload import Reason
from fault_contracts.remediation import OUT_OF_USE, NodePhase, Rung
from recovery_planner.domain.gang import Effect
from recovery_planner.domain.node_fit import ADMITTED, SENTENCE_MAX, NodeFit

EVIDENCE_KEPT = 64
"""Ids of verdicts and conditions that a record knows as taken in, so that a copy changes nothing."""
PLANNER = "recovery-planner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Blame:
    """What is said against a node, and what it asks for.

    Attributes:
        evidence_id: of the verdict or the condition.
        gpu_uuid: which device; empty: it is not known, or it is the node itself.
    """

    evidence_id: str
    action: Action
    cause: str
    sentence: str
    gpu_uuid: str = ""
    job_id: str = ""
    fault_id: str = ""
    also: tuple[str, ...] = ()
    """Further ids of the same evidence: a verdict names the conditions that it rests on."""
    by_standing: bool = False
    """Read from the node's standing; over when that is good again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An order that is under way, or that waits to be given again (`operation_id` empty)."""

    operation_id: str
    action: str
    tries: int
    ordered_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A node that the pool owes in place of this one.

    Attributes:
        request_id: of the present request; a node that is refused makes another one.
        requests: how many were made.
        ask_at: not before; a request that failed is not repeated at once.
        came: the node that the pool named; empty: none yet.
    """

    request_id: str
    requests: int
    since: datetime
    ask_at: datetime
    came: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLife:
    """The record.

    Attributes:
        since: start of the phase.
        by: who holds it; a person's quarantine is ended by a person.
        story: counts the stories of this node; one begins when it is blamed.
        score, scored_at: stories with decay, as of then.
        rung: what is tried, or was tried last; rungs_done: all of this story.
        taken_at: when it was last taken out of use; the breaker counts by it.
        on_trial: it was taken by a breaker that was half open.
        evidence_ids: what was taken in.
        rounds: clean validations in a row.
        deadline_at: when it has to be looked at again.
        probation_until: end of the probation, also while it is suspect again.
        listed: identities of the devices that must not come back with another node, see `known_bad`.
        ledger_owed: devices that the ledger has still to be told of.
        vouched: a person released it, whatever is listed; until its next story.
        predecessor: the node in whose place it came.
        returned: nodes that the pool delivered for this one and that were refused.
        withheld: what was said to be withheld in this story, so that it is said once.
    """

    node_id: str
    phase: NodePhase = NodePhase.OK
    since: datetime
    reason: Reason
    by: str = PLANNER
    story: int = 0
    score: float = 0.0
    scored_at: datetime | None = None
    blame: Blame | None = None
    rung: Rung | None = None
    rungs_done: tuple[Rung, ...] = ()
    taken_at: datetime | None = None
    on_trial: bool = False
    evidence_ids: tuple[str, ...] = ()
    operation: Operation | None = None
    rounds: int = 0
    deadline_at: datetime | None = None
    probation_until: datetime | None = None
    listed: tuple[str, ...] = ()
    ledger_owed: tuple[str, ...] = ()
    wanted: Wanted | None = None
    vouched: bool = False
    successor: str = ""
    predecessor: str = ""
    returned: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    effect_seq: int = 0
    pending: tuple[Effect, ...] = ()

    @property
    def is_out(self) -> bool:
        """It gets no ranks."""
        return self.phase in OUT_OF_USE

    @property
    def counts_as_out(self) -> bool:
        """For the breaker. A node that was replaced is missing until another stands in its place."""
        if self.phase is NodePhase.REPLACED:
            return self.wanted is not None
        return self.is_out

    @property
    def is_by_person(self) -> bool:
        """A person took it out; the ladder leaves it alone."""
        return self.by != PLANNER

    @property
    def at_rest(self) -> bool:
        """Nothing has to be done for it."""
        owes = self.wanted is not None or bool(self.ledger_owed or self.pending)
        if owes or self.deadline_at is not None:
            return False
        return self.phase in (NodePhase.OK, NodePhase.QUARANTINED, NodePhase.LISTED, NodePhase.REPLACED)


def fit_of_life(life: NodeLife | None, *, dry_run: bool) -> NodeFit:
    """What a node's life means for placement, beside its standing. A dry run changes nothing but the journal."""
    if life is None:
        return ADMITTED
    if life.is_out:
        return NodeFit(held=f"{life.phase}: {life.reason.sentence}"[:SENTENCE_MAX])
    if life.phase is NodePhase.PROBATION and life.probation_until is not None:
        return NodeFit(doubt=f"on probation until {life.probation_until:%Y-%m-%d %H:%M} UTC")
    if life.phase is NodePhase.SUSPECT and not dry_run:
        return NodeFit(doubt=f"suspect: {life.reason.sentence}"[:SENTENCE_MAX])
    return ADMITTED
