"""Standings of nodes from the bucket `nodes`, which health-ingest writes."""

from __future__ import annotations

from fault_contracts.hardware import NodeStanding, standing_of_record
from service_kit.errors import ContractViolation
from service_kit.ports import KeyValue


class KvNodeStandings:
    """application.ports.NodeStandingStore on a bucket; reads only."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def load(self, node_id: str) -> NodeStanding | None:
        """See the port."""
        entry = await self._bucket.get(node_id)
        if entry is None:
            return None
        try:
            return standing_of_record(entry.value)
        except ValueError as error:
            raise ContractViolation(f"record of node {node_id} is damaged: {str(error)[:500]}") from error

    async def node_ids(self) -> list[str]:
        """See the port."""
        return await self._bucket.keys()
