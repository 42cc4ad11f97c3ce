"""The one path on which a condition changes: load, decide, persist with what is owed, publish, clear."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fault_contracts.envelope import Envelope, seal
from fault_contracts.health import ConditionRaised
from health_ingest.application.condition_index import ConditionIndex
from health_ingest.application.ports import ConditionRecords, Record
from health_ingest.domain.condition import Condition, Effect, Step
from health_ingest.domain.signal import Entity
from service_kit.deadlines import Deadlines
from service_kit.errors import CompareAndSetLost, TransientError
from service_kit.failpoints import Failpoints
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock

SOURCE = "/health-ingest"
ROUNDS_MAX = 16
"""Lost compare-and-sets in a row on one record; more means a writer that never stops, and the bus redelivers later."""

_log = get_logger(__name__)
Decide = Callable[[Condition], Step]


class AdvanceCondition:
    """Applies a decision to a record and brings out its effects, exactly as often as the ids allow: once."""

    def __init__(
        self,
        *,
        records: ConditionRecords,
        bus: Bus,
        clock: Clock,
        deadlines: Deadlines,
        failpoints: Failpoints,
        index: ConditionIndex | None = None,
    ) -> None:
        self._index = index or ConditionIndex()
        self._records = records
        self._bus = bus
        self._clock = clock
        self._deadlines = deadlines
        self._failpoints = failpoints

    async def new(self, entity: Entity, decide: Decide, *, causation_id: str) -> None:
        """As `advance`, for an entity that is most likely new: saves the read on the path of a worker's death."""
        record = Record(condition=Condition(entity=entity), pending=(), revision=None)
        try:
            await self._apply(record, decide, causation_id=causation_id)
        except CompareAndSetLost:
            await self.advance(entity, decide, causation_id=causation_id)

    async def continue_from(self, last: Record | None, entity: Entity, decide: Decide) -> Record | None:
        """As `advance`, from the record as this process wrote it last: saves the read in a storm.

        Returns:
            The record as it is now, to go on from; None when that is not known.
        """
        if last is None and self._index.may_have(entity.key):
            return await self.advance(entity, decide, causation_id="")
        record = last or Record(condition=Condition(entity=entity), pending=(), revision=None)
        try:
            after = await self._apply(record, decide, causation_id="")
        except CompareAndSetLost:
            return await self.advance(entity, decide, causation_id="")
        if after is not record:
            return after
        # Nothing changed in a record that somebody else may have changed meanwhile: only the store knows.
        return await self.advance(entity, decide, causation_id="")

    async def advance(self, entity: Entity, decide: Decide, *, causation_id: str) -> Record | None:
        """Decide on the newest record of an entity, or on a fresh one; returns what it is afterwards."""
        for _ in range(ROUNDS_MAX):
            stored = await self._records.load(entity.key)
            record = stored or Record(condition=Condition(entity=entity), pending=(), revision=None)
            try:
                return await self._apply(record, decide, causation_id=causation_id)
            except CompareAndSetLost:
                continue
        raise TransientError(f"condition {entity.key} changed {ROUNDS_MAX} times while it was decided on")

    async def settle(self, key: str, decide: Decide) -> None:
        """As `advance`, for a record that is known by its key only; nothing when it is gone."""
        stored = await self._records.load(key)
        if stored is None:
            self._deadlines.set(key, None)
            self._index.dropped(key)
            return
        self._index.saved(stored.condition)
        try:
            await self._apply(stored, decide, causation_id="")
        except CompareAndSetLost:
            await self.advance(stored.condition.entity, decide, causation_id="")

    async def _apply(self, record: Record, decide: Decide, *, causation_id: str) -> Record | None:
        key = record.condition.entity.key
        owed = record.pending
        if owed:  # A predecessor was killed between persist and clear. Its messages come first.
            await self._publish(owed)
        self._failpoints.reach("after_load")
        step = decide(record.condition)
        self._failpoints.reach("after_decide")
        if step.condition is None:
            await self._records.drop(key)
            self._deadlines.set(key, None)
            self._index.dropped(key)
            return None
        effects = tuple(self._sealed(effect, step, causation_id) for effect in step.effects)
        if step.condition == record.condition and not effects and not owed:
            self._deadlines.set(key, step.condition.deadline_at)
            return record
        saved = await self._records.save(replace(record, condition=step.condition, pending=effects))
        self._failpoints.reach("after_persist")
        self._deadlines.set(key, step.condition.deadline_at)
        self._index.saved(step.condition)
        if not effects:
            return saved
        await self._publish(effects)
        self._failpoints.reach("after_publish")
        _log.info(
            "condition_changed",
            condition_id=step.condition.condition_id,
            node_id=step.condition.entity.node_id,
            check=step.condition.entity.check,
            phase=step.condition.phase,
            rule_id=step.reason.rule_id,
            reason=step.reason.sentence,
        )
        settled: Record | None = None
        try:
            settled = await self._records.save(replace(saved, pending=()))
        except CompareAndSetLost:
            # Whoever wrote saw the pending messages and published them again; their ids make that harmless.
            _log.debug("clear_overtaken", condition_id=step.condition.condition_id)
        self._failpoints.reach("after_clear")
        return settled

    async def _publish(self, envelopes: tuple[Envelope[Any], ...]) -> None:
        for envelope in envelopes:  # in order: raised, then cleared; nearly always one
            await self._bus.publish(envelope)

    def _sealed(self, effect: Effect, step: Step, causation_id: str) -> Envelope[Any]:
        # A condition is raised at most once per tier and cleared once, so the id needs no more than that.
        ordinal = effect.tier.value if isinstance(effect, ConditionRaised) else "cleared"
        return seal(
            effect,
            source=SOURCE,
            cause_id=effect.condition_id,
            ordinal=ordinal,
            time=self._clock.now(),
            causation_id=causation_id or ",".join(step.reason.evidence_ids[:1]),
        )
