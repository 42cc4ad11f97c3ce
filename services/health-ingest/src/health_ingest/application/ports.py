"""What the use cases ask of the world beyond the bus and the clock. Adapter: adapters/kv_conditions.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from fault_contracts.envelope import Envelope
from health_ingest.domain.condition import Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A condition together with the messages that it still owes: one record, so that a kill loses neither.

    Attributes:
        revision: of the store; None for a record that does not exist yet.
    """

    condition: Condition
    pending: tuple[Envelope[Any], ...]
    revision: int | None


class ConditionRecords(Protocol):
    """Conditions by entity key, with compare-and-set."""

    async def load(self, key: str) -> Record | None:
        """The record, or None."""
        ...

    async def save(self, record: Record) -> Record:
        """Write over exactly the record's revision and return the record with its new one.

        Raises:
            CompareAndSetLost: somebody else wrote first.
            BusUnavailable: unknown whether it was written.
        """
        ...

    async def drop(self, key: str) -> None:
        """Remove a record."""
        ...

    async def keys(self) -> list[str]:
        """Of all records."""
        ...
