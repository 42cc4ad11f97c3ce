"""The end or the fault of ranks → the condition of its entity, at once; what may come in masses: ingest_batch.py."""

from __future__ import annotations

from fault_contracts.agent import WorkerExited
from fault_contracts.rank_faults import RanksFaulted
from health_ingest.application.advance_condition import AdvanceCondition, Decide
from health_ingest.domain.condition import Condition, Step
from health_ingest.domain.observe import observe
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.signal import Signal, from_ranks_faulted, from_worker_exit
from service_kit.errors import ContractViolation
from service_kit.failpoints import Failpoints
from service_kit.ports import Clock, Delivery


class IngestSignal:
    """Handler of WorkerExited and RanksFaulted, one by one. Idempotent by message id and by entity."""

    def __init__(
        self, *, advance: AdvanceCondition, clock: Clock, policy: ConditionPolicy, failpoints: Failpoints
    ) -> None:
        self._advance = advance
        self._clock = clock
        self._policy = policy
        self._failpoints = failpoints

    async def handle(self, delivery: Delivery) -> None:
        """Take one message in; returning acknowledges it.

        Raises:
            TransientError: bus or store did not answer; the consumer owns the retry.
            ContractViolation: a message that this service did not ask for.
        """
        envelope = delivery.envelope
        payload = envelope.data
        if isinstance(payload, WorkerExited):
            signal = from_worker_exit(payload, envelope.id)
            await self._advance.new(signal.entity, self._decision(signal), causation_id=envelope.id)
        elif isinstance(payload, RanksFaulted):
            signal = from_ranks_faulted(payload, envelope.id)
            await self._advance.new(signal.entity, self._decision(signal), causation_id=envelope.id)
        else:
            raise ContractViolation(f"{envelope.type} is no signal")
        self._failpoints.reach("before_ack")

    def _decision(self, signal: Signal) -> Decide:
        now = self._clock.now()

        def decide(condition: Condition) -> Step:
            return observe(condition, signal, now=now, policy=self._policy)

        return decide
