"""Standings of nodes from the bucket `nodes`, which health-ingest writes: `{"v": 1, "standing": {...}, ...}`."""

from __future__ import annotations

import json

from pydantic import ValidationError

from fault_contracts.hardware import NodeStanding
from service_kit.errors import ContractViolation
from service_kit.ports import KeyValue

VERSION = 1


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
            record = json.loads(entry.value)
            if record["v"] != VERSION:
                raise ContractViolation(f"node record of version {record['v']}; this planner reads {VERSION}")
            return NodeStanding.model_validate(record["standing"])
        except (ValidationError, ValueError, KeyError, TypeError) as error:
            raise ContractViolation(f"record of node {node_id} is damaged: {str(error)[:500]}") from error
