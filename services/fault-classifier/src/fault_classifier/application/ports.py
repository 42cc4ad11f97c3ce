"""What the use cases ask of the world beyond the bus and the clock. Adapter: adapters/kv_evidence.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from fault_classifier.domain.evidence import JobEvidence
from fault_contracts.envelope import Envelope


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The evidence of a job together with the verdicts that it still owes: one record, so that a kill loses neither.

    Attributes:
        job: the evidence.
        pending: sealed messages that may not be on the bus yet.
        revision: of the store; None for a record that does not exist yet.
    """

    job: JobEvidence
    pending: tuple[Envelope[Any], ...]
    revision: int | None


class EvidenceRecords(Protocol):
    """Evidence by job_id, with compare-and-set."""

    async def load(self, job_id: str) -> Record | None:
        """The record, or None."""
        ...

    async def save(self, record: Record) -> Record:
        """Write over exactly the record's revision and return the record with its new one.

        Raises:
            CompareAndSetLost: somebody else wrote first.
            BusUnavailable: unknown whether it was written.
        """
        ...

    async def drop(self, job_id: str) -> None:
        """Remove a record."""
        ...

    async def job_ids(self) -> list[str]:
        """Of all records."""
        ...
