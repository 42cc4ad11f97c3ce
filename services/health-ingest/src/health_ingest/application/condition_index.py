"""Which conditions have a record, by node: what saves a read for each of the many samples that are well.

Filled by this process's own writes, by what other replicas tell (heard at most once) and by the rescan of all records.
It is a hint: whatever matters is decided on the record itself. What it misses, the next rescan finds.
"""

from __future__ import annotations

from fault_contracts.health import ConditionRaised
from health_ingest.domain.condition import Condition, Phase
from health_ingest.domain.signal import Entity

ENTITIES_MAX = 200_000
"""Some 100 MB; the bucket takes about 50,000 records. Beyond it samples are read for again, which is only slower."""


class ConditionIndex:
    """Entities with a record."""

    def __init__(self) -> None:
        self._entities: dict[str, Entity] = {}
        self._by_node: dict[str, set[str]] = {}
        self._raised: dict[str, str] = {}
        """Of those that are raised: what the driver wants, or empty."""
        self.complete = False
        """The records were read once, so what is not here has none."""

    def may_have(self, key: str) -> bool:
        """Whether a record may exist."""
        return key in self._entities or not self.complete

    def of_node(self, node_id: str) -> tuple[Entity, ...]:
        """All of a node that are known."""
        return tuple(self._entities[key] for key in self._by_node.get(node_id, ()))

    def is_raised(self, key: str) -> bool:
        """Whether it is known to be a problem or a failure."""
        return key in self._raised

    def driver_wish(self, key: str) -> str:
        """What the driver wanted when it was raised; empty: nothing that is known."""
        return self._raised.get(key, "")

    def saved(self, condition: Condition) -> None:
        """A record was read or written."""
        key = condition.entity.key
        self._add(condition.entity)
        if condition.phase is Phase.CLEAR:
            self._raised.pop(key, None)
        else:
            self._raised[key] = condition.ruling.driver_action if condition.ruling is not None else ""

    def heard(self, raised: ConditionRaised) -> None:
        """Another replica wrote a record."""
        entity = Entity(
            node_id=raised.node_id,
            component=raised.component,
            component_id=raised.component_id,
            check=raised.check,
        )
        self._add(entity)
        self._raised.setdefault(entity.key, raised.device.driver_action if raised.device is not None else "")

    def dropped(self, key: str) -> None:
        """A record is gone."""
        entity = self._entities.pop(key, None)
        self._raised.pop(key, None)
        if entity is None:
            return
        keys = self._by_node[entity.node_id]
        keys.discard(key)
        if not keys:
            del self._by_node[entity.node_id]

    def _add(self, entity: Entity) -> None:
        key = entity.key
        if key in self._entities:
            return
        if len(self._entities) >= ENTITIES_MAX:
            self.complete = False
            return
        self._entities[key] = entity
        self._by_node.setdefault(entity.node_id, set()).add(key)
