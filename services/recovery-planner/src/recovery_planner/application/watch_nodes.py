"""A condition or the standing of a node → an event of every job that has an agent there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from fault_contracts.hardware import NodeStandingChanged, is_of_node
from fault_contracts.health import ConditionCleared, ConditionRaised, Tier
from fault_contracts.node_actions import NodeActionReported
from fault_contracts.payload import Payload
from recovery_planner.application.advance_gang import AdvanceGang
from recovery_planner.application.cause_board import CauseBoard
from recovery_planner.application.node_standings import StandingBook
from recovery_planner.domain.gang import Gang, Phase
from recovery_planner.domain.node_faults import NodeFaultCleared, NodeFaultSeen
from recovery_planner.domain.node_fitness import NodeStandingSeen
from recovery_planner.domain.step import Event
from service_kit.errors import ContractViolation
from service_kit.ports import Delivery

MESSAGES: tuple[type[Payload], ...] = (ConditionRaised, ConditionCleared, NodeStandingChanged, NodeActionReported)


class WatchNodes:
    """A GangWatcher that knows which jobs have an agent on a node; hands what happens there to them."""

    def __init__(self, *, advance: AdvanceGang, book: StandingBook, board: CauseBoard | None = None) -> None:
        self._advance = advance
        self._book = book
        self._board = board
        self._members: dict[str, object] = {}
        self._nodes: dict[str, frozenset[str]] = {}
        self._jobs: defaultdict[str, set[str]] = defaultdict(set)

    # ---------------------------------------------------------------------------------------------- who is where

    def observe(self, gang: Gang) -> None:
        """Note the nodes of a job."""
        if gang.phase is Phase.ENDED:
            self.forget(gang.job_id)
        elif self._members.get(gang.job_id) is not gang.members:
            self._members[gang.job_id] = gang.members
            self._place(gang.job_id, frozenset(gang.members))

    def forget(self, job_id: str) -> None:
        """The job is over, or somebody else leads."""
        self._members.pop(job_id, None)
        self._place(job_id, frozenset())

    def jobs_on(self, node_id: str) -> tuple[str, ...]:
        """Jobs with an agent on a node, by name."""
        return tuple(sorted(self._jobs.get(node_id, ())))

    def nodes(self) -> Iterable[str]:
        """All nodes with an agent of a job."""
        return self._jobs.keys()

    def _place(self, job_id: str, nodes: frozenset[str]) -> None:
        before = self._nodes.pop(job_id, frozenset())
        for node_id in before - nodes:
            self._jobs[node_id].discard(job_id)
            if not self._jobs[node_id]:
                del self._jobs[node_id]
        for node_id in nodes - before:
            self._jobs[node_id].add(job_id)
        if nodes:
            self._nodes[job_id] = nodes

    # ------------------------------------------------------------------------------------------ what happens there

    async def hear(self, delivery: Delivery) -> None:
        """One message about a node.

        Raises:
            TransientError: it could not be recorded; safe to repeat.
            ContractViolation: a message that was not asked for.
        """
        payload = delivery.envelope.data
        event = self._event(payload)
        if event is None:
            return
        for job_id in self.jobs_on(payload.node_id):
            await self._advance.handle(job_id, event, delivery.envelope.id)

    def _event(self, payload: Payload) -> Event | None:
        match payload:
            case ConditionRaised():
                is_fault = payload.tier is Tier.FAILURE and is_of_node(payload)
                if is_fault and self._board is not None:
                    self._board.raised(payload, self.jobs_on(payload.node_id))
                return NodeFaultSeen(condition=payload) if is_fault else None
            case ConditionCleared():
                return NodeFaultCleared(
                    node_id=payload.node_id, condition_id=payload.condition_id, sentence=payload.reason
                )
            case NodeStandingChanged():
                changed = self._book.take(payload.standing)
                return NodeStandingSeen(node_id=payload.node_id) if changed else None
            case NodeActionReported():
                return None  # of the node's own life, and of no job
            case _:
                raise ContractViolation(f"{type(payload).__name__} is not about a node's health")
