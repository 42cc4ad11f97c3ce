"""A hang over several nodes: the agents of a gang tell each other what their ranks do while nothing moves.

Each node that is late tells; only nodes with a rank that may be the culprit, and node_rank 0, listen. So the decision
stays where the rules and the evidence are, and a gang of n nodes costs n messages a round.
"""

from __future__ import annotations

from collections.abc import Mapping

from fault_contracts.rank_faults import StalledRank, StallSeen
from node_agent.application.agent_life import AgentLife
from node_agent.application.outgoing import Outgoing
from node_agent.domain.progress_watch import ProgressView
from node_agent.domain.rank_evidence import ProcessState, RankEvidence
from node_agent.domain.stack_groups import RankStack, StackPlace
from node_agent.domain.step_times import TrainingPhase
from service_kit.errors import TransientError
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock, Delivery, Subscription
from training_topology.identity import Rank

ROUND_S = 5.0
"""Between two messages of a node: fast enough for a patience of 15 s, and little for a server with 1,000 nodes."""
AGE_S_MAX = 3 * ROUND_S
"""What was not repeated for so long is over, or its node is gone."""
NODES_MAX = 16_384

log = get_logger(__name__)


class StallExchange:
    """What the other nodes of the gang said last."""

    def __init__(self, life: AgentLife, outgoing: Outgoing, clock: Clock) -> None:
        self._life = life
        self._outgoing = outgoing
        self._clock = clock
        self._bus: Bus | None = None
        self._listening: Subscription | None = None
        self._heard: dict[str, tuple[StallSeen, float]] = {}

    def attach(self, bus: Bus) -> None:
        """From now on there is a bus."""
        self._bus = bus

    async def stop(self) -> None:
        """Stop listening."""
        if self._listening is not None:
            await self._listening.stop()
            self._listening = None

    def others(self, topology_version: int) -> Mapping[Rank, RankEvidence]:
        """Ranks of other nodes, as they were told lately and in this generation."""
        now_s = self._clock.monotonic_s()
        return {
            Rank(told.rank): _evidence_of(told)
            for seen, heard_s in self._heard.values()
            if seen.topology_version == topology_version and now_s - heard_s <= AGE_S_MAX
            for told in seen.ranks
        }

    async def tell(
        self, topology_version: int, ranks: Mapping[Rank, RankEvidence], view: ProgressView, *, listen: bool
    ) -> None:
        """Tell the others; and hear them from now on, where asked. A message that cannot be sent is not kept."""
        if self._bus is None:
            return
        identity = self._life.identity
        seen = StallSeen(
            node_id=identity.node_id,
            instance_id=identity.instance_id,
            job_id=identity.job_id,
            topology_version=topology_version,
            ranks=tuple(_told(rank, evidence) for rank, evidence in sorted(ranks.items())),
            reason=view.sentence[:2_048],
            silent_s=view.age_s,
        )
        try:
            if listen and self._listening is None:
                self._listening = await self._bus.listen(
                    messages=[StallSeen], handler=self._on_delivery, key=identity.job_id
                )
            await self._bus.publish(self._outgoing.seal(seen))
        except TransientError as error:
            # The connection's own notice has told the person; the next round tells again.
            log.info("stall_not_told", error=str(error))

    async def _on_delivery(self, delivery: Delivery) -> None:
        seen = delivery.envelope.data
        assert isinstance(seen, StallSeen), "the subscription names this type only"
        if seen.node_id == self._life.identity.node_id or seen.job_id != self._life.identity.job_id:
            return
        if seen.node_id in self._heard or len(self._heard) < NODES_MAX:
            self._heard[seen.node_id] = (seen, self._clock.monotonic_s())


def _told(rank: Rank, seen: RankEvidence) -> StalledRank:
    stack = seen.stack
    shape = (
        {}
        if stack is None
        else {
            "place": stack.place.value,
            "activity": "" if stack.activity is None else stack.activity.value,
            "operation": stack.operation[:256],
            "where": stack.where[-256:],
        }
    )
    return StalledRank(
        rank=rank,
        state=seen.state.value,
        state_age_s=seen.state_age_s,
        cpu_share=seen.cpu_share,
        io_bytes=seen.io_bytes,
        moved=seen.moved,
        **shape,
    )


def _evidence_of(told: StalledRank) -> RankEvidence:
    return RankEvidence(
        state=ProcessState.of(told.state),
        state_age_s=told.state_age_s,
        cpu_share=told.cpu_share,
        io_bytes=told.io_bytes,
        stack=_stack_of(told),
        moved=told.moved,
    )


def _stack_of(told: StalledRank) -> RankStack | None:
    """None also for a place that this version does not know: too little is known of that rank then."""
    if told.place not in StackPlace.__members__.values():
        return None
    activity = TrainingPhase(told.activity) if told.activity in TrainingPhase.__members__.values() else None
    return RankStack(
        place=StackPlace(told.place), activity=activity, operation=told.operation, where=told.where, frames=()
    )
