"""A node while one event is being decided, as `draft` is for a gang: what changes, what is published, and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from fault_contracts.cluster_policy import ClusterPolicy, LadderPolicy
from fault_contracts.hardware import NodeStanding
from fault_contracts.ids import derived_id
from fault_contracts.node_actions import NodeAction, OrderNodeAction
from fault_contracts.payload import Health, Payload, Reason
from fault_contracts.remediation import BreakerMoved, NodePhase, NodeTended
from recovery_planner.domain.breaker import Breaker, Census, settle_trial
from recovery_planner.domain.gang import Effect
from recovery_planner.domain.node_life import PLANNER, NodeLife, Operation
from recovery_planner.domain.node_machine import NodeTrigger, node_target

ORDER_VALID_S = 60.0
"""For the host role to begin: it listens, and looks at the newest order every 15 s."""
_NEXT = {
    NodePhase.OK: "",
    NodePhase.SUSPECT: "it is taken out of use when the breaker lets it, or the matter is dropped",
    NodePhase.QUARANTINED: "a person drains or releases it",
    NodePhase.DRAINING: "it is emptied: its ranks go at their job's next stop",
    NodePhase.REMEDIATING: "the outcome is waited for",
    NodePhase.VALIDATING: "clean validations bring it back on probation; else the next rung is tried",
    NodePhase.PROBATION: "without a fault it is free when the probation ends; a fault costs the next rung",
    NodePhase.LISTED: "a person repairs and releases it",
    NodePhase.REPLACED: "",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What the node's life depends on beside its record.

    Attributes:
        occupied_by: jobs that have ranks on it, or may.
        standing: as health-ingest keeps it; None: nothing is known.
        bad: why it must not work because of what is built in, see `known_bad`.
        pool: there is one.
        told: every gang knows that the node gets no ranks any more, so that none can be on their way.
    """

    census: Census
    occupied_by: tuple[str, ...] = ()
    standing: NodeStanding | None = None
    bad: Reason | None = None
    pool: bool = False
    told: bool = False


class Care:
    """Collects the changes of one step; never seen outside of it."""

    __slots__ = ("around", "breaker", "cause_id", "durable", "life", "now", "policy", "reasons")

    def __init__(
        self,
        life: NodeLife,
        *,
        breaker: Breaker,
        around: Around,
        now: datetime,
        policy: ClusterPolicy,
        cause_id: str = "",
    ) -> None:
        self.life = life
        self.breaker = breaker
        self.around = around
        self.now = now
        self.policy = policy
        self.cause_id = cause_id
        self.reasons: list[Reason] = []
        self.durable = False

    @property
    def ladder(self) -> LadderPolicy:
        """Stories that are on are ended also when the ladder was taken away meanwhile."""
        return self.policy.ladder or LadderPolicy()

    @property
    def is_due(self) -> bool:
        """The deadline has passed."""
        return self.life.deadline_at is not None and self.now >= self.life.deadline_at

    @property
    def stands_badly(self) -> bool:
        """Its standing says that it must not be given ranks."""
        return self.around.standing is not None and self.around.standing.fit is Health.BAD

    def in_s(self, seconds: float) -> datetime:
        """So long from now."""
        return self.now + timedelta(seconds=seconds)

    def change(self, **fields: Any) -> None:
        """Replace fields of the record."""
        self.life = replace(self.life, **fields)
        self.durable = True

    def explain(self, rule_id: str, sentence: str, *evidence_ids: str) -> Reason:
        """Say why something was decided, or ignored."""
        evidence = tuple(each for each in evidence_ids if each)
        reason = Reason(rule_id=rule_id, sentence=sentence[:2_048], evidence_ids=evidence)
        self.reasons.append(reason)
        return reason

    def emit(self, payload: Payload) -> None:
        """Decide to publish something."""
        seq = self.life.effect_seq + 1
        effect = Effect(seq=seq, payload=payload, cause_id=self.cause_id)
        self.change(effect_seq=seq, pending=(*self.life.pending, effect))

    def move(
        self,
        trigger: NodeTrigger,
        reason: Reason,
        *,
        by: str = PLANNER,
        deadline_s: float | None = None,
        action: str = "",
        **fields: Any,
    ) -> None:
        """Take one move of the table, and tell of it.

        Raises:
            IllegalMove: the table has no such move.
        """
        before = self.life.phase
        phase = node_target(before, trigger)
        since = self.life.since if phase is before else self.now
        deadline_at = None if deadline_s is None else self.in_s(deadline_s)
        self.change(phase=phase, since=since, reason=reason, by=by, deadline_at=deadline_at, **fields)
        self.tell(before, reason, action=action)

    def tell(self, before: NodePhase, reason: Reason, *, action: str = "", withheld_by: str = "") -> None:
        """Write to the journal."""
        life = self.life
        blame = life.blame
        operation = life.operation
        self.emit(
            NodeTended(
                node_id=life.node_id,
                before=before,
                phase=life.phase,
                rung=life.rung,
                action=action,
                withheld_by=withheld_by,
                operation_id=operation.operation_id if operation else "",
                job_id=blame.job_id if blame else "",
                fault_id=blame.fault_id if blame else "",
                cause=blame.cause if blame else "",
                successor=life.successor,
                until=life.probation_until if life.phase is NodePhase.PROBATION else life.deadline_at,
                next=next_of(life),
                by=life.by,
                reason=reason,
                tended_at=self.now,
            )
        )

    def withhold(self, action: str, withheld_by: str, reason: Reason) -> None:
        """Record that something would have been done; once in a story."""
        key = f"{withheld_by}:{action}:{self.life.story}"
        if key in self.life.withheld:
            return
        self.change(withheld=(*self.life.withheld, key)[-8:])
        self.tell(self.life.phase, reason, action=action, withheld_by=withheld_by)

    def order(self, action: NodeAction, reason: Reason, *, limit_s: float, tries: int = 1) -> None:
        """Order something of the host role. A repeat is another operation; the fence is the boot that is meant."""
        life, standing = self.life, self.around.standing
        operation_id = derived_id(life.node_id, "tend", life.story, str(action), life.effect_seq)
        # A validation may run in whatever boot it finds; what changes the machine is for the boot that was judged.
        boot_id = "" if standing is None or action is NodeAction.VALIDATE else standing.boot_id
        gpu = life.blame.gpu_uuid if life.blame is not None and action is NodeAction.RESET_GPU else ""
        self.emit(
            OrderNodeAction(
                node_id=life.node_id,
                operation_id=operation_id,
                action=action,
                boot_id=boot_id,
                gpu_uuid=gpu,
                asked_by=PLANNER,
                reason=reason,
                expires_at=self.in_s(ORDER_VALID_S),
            )
        )
        operation = Operation(operation_id=operation_id, action=str(action), tries=tries, ordered_at=self.now)
        self.change(operation=operation, deadline_at=self.in_s(ORDER_VALID_S + limit_s))

    def end_trial(self, *, well: bool) -> None:
        """The story ended; if the breaker tried with this node, it learns how."""
        self.set_breaker(settle_trial(self.breaker, self.life.node_id, well=well, now=self.now))
        if self.life.on_trial:
            self.change(on_trial=False)

    def set_breaker(self, breaker: Breaker) -> None:
        """Take the breaker's next record; a move of it is told."""
        moved = breaker.state is not self.breaker.state
        if breaker == self.breaker:
            return
        self.breaker = breaker
        self.durable = True
        if not moved or breaker.reason is None:
            return
        census = self.around.census
        self.reasons.append(breaker.reason)
        self.emit(
            BreakerMoved(
                state=breaker.state,
                nodes_out=census.out,
                nodes_known=census.known,
                taken_in_window=len(breaker.takes),
                reason=breaker.reason,
                moved_at=self.now,
            )
        )


def next_of(life: NodeLife) -> str:
    """What comes next, for a person."""
    if life.phase is NodePhase.REPLACED:
        if life.successor:
            return f"{life.successor} stands in its place"
        wanted = life.wanted
        if wanted is None:
            return "no node came in its place; add one"
        if wanted.came:
            return f"{wanted.came} was delivered; it must say what is built in"
        return f"a node is asked of the pool (request {wanted.requests})"
    if life.phase is NodePhase.REMEDIATING and life.operation is not None and not life.operation.operation_id:
        return "the order is given again"
    if life.phase is NodePhase.DRAINING and not life.is_by_person:
        return "it is emptied, then the ladder begins"
    if life.phase is NodePhase.VALIDATING:
        return f"{life.rounds} clean validations so far; {_NEXT[life.phase]}"
    return _NEXT[life.phase]
