"""Ends the conditions that a boot, a reset of a device or the driver's word ends. Idempotent."""

from __future__ import annotations

from collections.abc import Iterable

from health_ingest.application.advance_condition import AdvanceCondition, Decide
from health_ingest.application.condition_index import ConditionIndex
from health_ingest.domain.condition import Condition, Step
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.reset import Reset, reset
from health_ingest.domain.signal import Entity
from health_ingest.domain.xid_policy import RECOVERY_CLASS
from service_kit.ports import Clock


class EndByReset:
    """Finds a node's conditions in the index and lets each decide for itself."""

    def __init__(
        self, *, advance: AdvanceCondition, index: ConditionIndex, clock: Clock, policy: ConditionPolicy
    ) -> None:
        self._advance = advance
        self._index = index
        self._clock = clock
        self._policy = policy

    async def end(self, events: Iterable[Reset]) -> None:
        """One event after the other.

        Raises:
            TransientError: bus or store did not answer; to be repeated.
        """
        for event in events:
            # The driver's own wish last: a kill before it is gone makes the word come again, and the rest is ended.
            for entity in sorted(self._index.of_node(event.node_id), key=lambda each: each.check == RECOVERY_CLASS):
                if self._may_be_meant(event, entity):
                    await self._advance.settle(entity.key, self._decision(event))

    def _decision(self, event: Reset) -> Decide:
        def decide(condition: Condition) -> Step:
            return reset(condition, event, now=self._clock.now(), policy=self._policy)

        return decide

    def _may_be_meant(self, event: Reset, entity: Entity) -> bool:
        if not self._index.is_raised(entity.key):
            return False
        if event.component_id and entity.component_id != event.component_id:
            return False
        return event.fault_class is None or entity.check == event.fault_class
