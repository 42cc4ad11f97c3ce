"""Standings of nodes in the bucket `nodes`, one JSON record a node: the planner reads `standing`."""

from __future__ import annotations

import json
from dataclasses import replace

from pydantic import ValidationError

from fault_contracts.envelope import Envelope, open_envelope
from fault_contracts.hardware import NODE_RECORD_VERSION, NodeStanding
from fault_contracts.payload import Payload
from health_ingest.application.hardware_ports import NodeRecord
from health_ingest.domain.node_standing import NodeState
from service_kit.errors import PermanentError
from service_kit.ports import KeyValue


class KvNodes:
    """application.hardware_ports.NodeRecords on a key-value bucket."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def load(self, node_id: str) -> NodeRecord | None:
        """The record, or None."""
        found = await self._bucket.get(node_id)
        return None if found is None else _decode(found.value, found.revision)

    async def save(self, record: NodeRecord) -> NodeRecord:
        """Write over exactly the record's revision."""
        node_id, raw = record.state.standing.node_id, _encode(record)
        if record.revision is None:
            return replace(record, revision=await self._bucket.create(node_id, raw))
        return replace(record, revision=await self._bucket.update(node_id, raw, record.revision))

    async def node_ids(self) -> list[str]:
        """Of all nodes."""
        return await self._bucket.keys()


def _encode(record: NodeRecord) -> bytes:
    return json.dumps(
        {
            "v": NODE_RECORD_VERSION,
            "standing": record.state.standing.model_dump(mode="json"),
            "over": record.state.over,
            "pending": [envelope.to_bytes().decode() for envelope in record.pending],
        }
    ).encode()


def _decode(raw: bytes, revision: int) -> NodeRecord:
    try:
        body = json.loads(raw)
        if body["v"] != NODE_RECORD_VERSION:
            raise PermanentError(f"node record of version {body['v']}; this service reads {NODE_RECORD_VERSION}")
        pending: tuple[Envelope[Payload], ...] = tuple(open_envelope(text.encode()) for text in body["pending"])
        state = NodeState(standing=NodeStanding.model_validate(body["standing"]), over=tuple(body["over"]))
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
        raise PermanentError(f"node record does not decode: {error}") from error
    return NodeRecord(state=state, pending=pending, revision=revision)
