"""What the ledger and the standings of nodes ask of the store. Adapters: adapters/kv_ledger.py and kv_nodes.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from fault_contracts.envelope import Envelope
from fault_contracts.hardware import LedgerEntry
from health_ingest.domain.node_standing import NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRecord:
    """An entry together with the messages that it still owes; `revision` None: it does not exist yet."""

    entry: LedgerEntry
    pending: tuple[Envelope[Any], ...] = ()
    revision: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRecord:
    """A node's state together with the messages that it still owes."""

    state: NodeState
    pending: tuple[Envelope[Any], ...] = ()
    revision: int | None = None


class LedgerRecords(Protocol):
    """Entries by device_id, with compare-and-set; and which device a board is listed as."""

    async def load(self, device_id: str) -> LedgerRecord | None:
        """The record, or None."""
        ...

    async def listed_as(self, board_serial: str, pci_vendor_data: str) -> str | None:
        """device_id under which a board is listed; None: it is not, or one of the two is not known."""
        ...

    async def save(self, record: LedgerRecord) -> LedgerRecord:
        """Write over exactly the record's revision, and note the board.

        Raises:
            CompareAndSetLost: somebody else wrote first.
            BusUnavailable: unknown whether it was written.
        """
        ...

    async def device_ids(self) -> list[str]:
        """Of all entries."""
        ...


class NodeRecords(Protocol):
    """States by node_id, with compare-and-set. Errors as above."""

    async def load(self, node_id: str) -> NodeRecord | None:
        """The record, or None."""
        ...

    async def save(self, record: NodeRecord) -> NodeRecord:
        """Write over exactly the record's revision."""
        ...

    async def node_ids(self) -> list[str]:
        """Of all nodes."""
        ...
