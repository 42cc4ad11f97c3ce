"""Many signals at once → the conditions of their devices: one decision and one write for each device and fault class.

The order is what makes a kill harmless: everything that follows from a batch is written before it is acknowledged, and
whatever comes again is recognised by its place in the stream. ADR 0014.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from fault_contracts.health import SignalObserved, SignalsObserved
from fault_contracts.node_actions import ActionOutcome, NodeAction, NodeActionReported
from fault_contracts.payload import Health
from health_ingest.application.advance_condition import SOURCE, AdvanceCondition, Decide
from health_ingest.application.condition_index import ConditionIndex
from health_ingest.application.end_by_reset import EndByReset
from health_ingest.application.nodes_heard import NodesHeard
from health_ingest.application.ports import Record
from health_ingest.domain.applied import Place, joined_runs
from health_ingest.domain.condition import Condition, Step
from health_ingest.domain.fold import BatchPlace, TooManyHoles, fold
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.reset import Reset, boot
from health_ingest.domain.rulebook import Rulebook, Weighed
from health_ingest.domain.signal import Entity, Signal, from_observation, from_sweep
from health_ingest.domain.xid_policy import RECOVERY_CLASS
from service_kit.errors import BusUnavailable, ContractViolation, ServiceError
from service_kit.failpoints import Failpoints
from service_kit.ports import Batch, Clock, Delivery

BATCH_MAX = 1_000
"""Messages of one batch: one write a device and batch then costs a message little, and a batch takes some 0.1 s."""
AT_ONCE_MAX = 64
"""Records that are written side by side."""
RECORDS_KEPT = 4_096
"""Records that this process goes on from without a read; a storm is about few devices. Some 20 MB."""


class IngestBatch:
    """Handler of SignalObserved, SignalsObserved and NodeActionReported in batches."""

    def __init__(
        self,
        *,
        advance: AdvanceCondition,
        resets: EndByReset,
        rulebook: Rulebook,
        index: ConditionIndex,
        heard: NodesHeard,
        clock: Clock,
        policy: ConditionPolicy,
        failpoints: Failpoints,
    ) -> None:
        self._advance = advance
        self._resets = resets
        self._rulebook = rulebook
        self._index = index
        self._heard = heard
        self._clock = clock
        self._policy = policy
        self._failpoints = failpoints
        self._side_by_side = asyncio.Semaphore(AT_ONCE_MAX)
        self._records: OrderedDict[str, Record] = OrderedDict()

    async def handle(self, batch: Batch) -> None:
        """Take a batch in; returning acknowledges it.

        Raises:
            TransientError: bus or store did not answer, or a record cannot keep more apart; the consumer retries.
            PermanentError: one of the messages or records is unusable; the consumer takes the batch apart.
        """
        signals: list[Signal] = []
        resets: list[Reset] = []
        for delivery in batch.deliveries:
            signals += self._signals(delivery, batch.life)
            if isinstance(delivery.envelope.data, NodeActionReported):
                resets += _reset_by_action(delivery.envelope.data, delivery.envelope.id)
        told = [(signal, self._rulebook.reset(signal)) for signal in signals]
        await self._take_in([signal for signal, reset in told if reset is None or signal.health is Health.BAD], batch)
        # After what it may end, and before it is itself written down: a kill between the two repeats it.
        resets += [reset for signal, reset in told if reset is not None and self._is_meant(signal)]
        await self._resets.end(resets)
        await self._take_in([signal for signal, reset in told if reset and signal.health is not Health.BAD], batch)
        await self._notice_nodes(batch.deliveries)
        self._failpoints.reach("before_ack")

    def _signals(self, delivery: Delivery, life: str) -> Iterable[Signal]:
        payload, message_id = delivery.envelope.data, delivery.envelope.id
        assert delivery.stream_sequence is not None, "batches come from streams"
        place = Place(life=life, sequence=delivery.stream_sequence)
        if isinstance(payload, SignalObserved):
            return (from_observation(payload, message_id, place),)
        if isinstance(payload, SignalsObserved):
            return from_sweep(payload, message_id, place)
        if isinstance(payload, NodeActionReported):
            return ()
        raise ContractViolation(f"{delivery.envelope.type} is no signal")

    async def _take_in(self, signals: list[Signal], batch: Batch) -> None:
        now = self._clock.now()
        by_entity: dict[Entity, list[Weighed]] = {}
        for signal in signals:
            weighed = self._rulebook.classed(signal, now=now)
            by_entity.setdefault(weighed.entity, []).append(weighed)
        sequences = [delivery.stream_sequence or 0 for delivery in batch.deliveries]
        place = BatchPlace(life=batch.life, runs=joined_runs((each, each) for each in sequences), settled=batch.settled)
        work = [self._take_in_one(entity, found, place) for entity, found in by_entity.items() if self._matters(found)]
        # Every record gets its turn before a failure is told: what is taken in is recognised when it comes again.
        failures = [each for each in await asyncio.gather(*work, return_exceptions=True) if each is not None]
        unexpected = [each for each in failures if not isinstance(each, ServiceError)]
        if failures:
            raise (unexpected or failures)[0]

    def _matters(self, signals: list[Weighed]) -> bool:
        """What is well, or unknown, says nothing about a device without a record."""
        bad = any(each.raw.health is Health.BAD for each in signals)
        return bad or self._index.may_have(signals[0].entity.key)

    async def _take_in_one(self, entity: Entity, signals: list[Weighed], place: BatchPlace) -> None:
        key = entity.key
        async with self._side_by_side:
            last = self._records.pop(key, None)
            try:
                after = await self._advance.continue_from(last, entity, self._decision(entity, signals, place))
            except TooManyHoles as error:
                raise BusUnavailable(f"record {error} waits for messages that another process holds") from error
            if after is not None and not after.pending and after.revision is not None:
                self._records[key] = after
                if len(self._records) > RECORDS_KEPT:
                    self._records.popitem(last=False)

    def _decision(self, entity: Entity, signals: list[Weighed], place: BatchPlace) -> Decide:
        now = self._clock.now()
        wish = self._index.driver_wish(_recovery_of(entity).key) if entity.check != RECOVERY_CLASS else ""

        def decide(condition: Condition) -> Step:
            return fold(
                condition,
                signals,
                batch=place,
                rulebook=self._rulebook,
                now=now,
                policy=self._policy,
                driver_wish=wish,
            )

        return decide

    def _is_meant(self, signal: Signal) -> bool:
        """Whether a word of the driver that it wants nothing ends something: only after it has wanted something.

        A sweep tells of all that is well; that no reset is wanted just after a fault proves nothing against the fault.
        """
        if signal.entity.check != RECOVERY_CLASS:
            return True
        key = signal.entity.key
        return self._index.is_raised(key) or not self._index.complete

    async def _notice_nodes(self, deliveries: Iterable[Delivery]) -> None:
        now = self._clock.now()
        for delivery in deliveries:
            payload = delivery.envelope.data
            if delivery.envelope.source.startswith(SOURCE):
                continue  # what others tell of a node, or its peers, is no word of its agent
            self._heard.heard(payload.node_id, now)
            if not isinstance(payload, (SignalObserved, SignalsObserved)):
                continue
            node_id, boot_id, at = payload.node_id, payload.boot_id, payload.observed_at
            if self._heard.is_new_boot(node_id, boot_id, at):
                event = boot(node_id, boot_id, at, evidence_id=delivery.envelope.id)
                await self._resets.end([event])
                self._heard.booted(event)


def _reset_by_action(report: NodeActionReported, message_id: str) -> list[Reset]:
    """A GPU that was reset by order. A reboot shows itself by its new boot id."""
    if report.action is not NodeAction.RESET_GPU or report.outcome is not ActionOutcome.DONE or not report.gpu_uuid:
        return []
    return [
        Reset(
            node_id=report.node_id,
            component_id=report.gpu_uuid,
            at=report.finished_at,
            sentence=f"{report.gpu_uuid} was reset by order {report.operation_id}",
            evidence_id=message_id,
        )
    ]


def _recovery_of(entity: Entity) -> Entity:
    """Where the driver's wish for a device is kept."""
    return Entity(
        node_id=entity.node_id,
        component=entity.component,
        component_id=entity.component_id,
        check=RECOVERY_CLASS,
    )
