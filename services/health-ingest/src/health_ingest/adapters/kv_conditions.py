"""Condition records in the bucket `conditions`: one JSON record a key, written with its revision."""

from __future__ import annotations

import json
from dataclasses import replace

from pydantic import TypeAdapter, ValidationError

from fault_contracts.envelope import Envelope, open_envelope
from fault_contracts.payload import Payload
from health_ingest.application.ports import Record
from health_ingest.domain.condition import Condition
from service_kit.errors import PermanentError
from service_kit.ports import KeyValue

RECORD_VERSION = 1
_CONDITION = TypeAdapter(Condition)


def encode_record(record: Record) -> bytes:
    """The record as JSON."""
    pending = json.dumps([envelope.to_bytes().decode() for envelope in record.pending]).encode()
    return b'{"v": %d, "condition": %b, "pending": %b}' % (
        RECORD_VERSION,
        _CONDITION.dump_json(record.condition),
        pending,
    )


def decode_record(raw: bytes, revision: int) -> Record:
    """Inverse of `encode_record`.

    Raises:
        PermanentError: written by a newer version, or not a record.
    """
    try:
        body = json.loads(raw)
        version = body["v"]
        if version != RECORD_VERSION:
            raise PermanentError(f"condition record of version {version}; this service reads {RECORD_VERSION}")
        pending: tuple[Envelope[Payload], ...] = tuple(open_envelope(text.encode()) for text in body["pending"])
        condition = _CONDITION.validate_python(body["condition"])
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
        raise PermanentError(f"condition record does not decode: {error}") from error
    return Record(condition=condition, pending=pending, revision=revision)


class KvConditions:
    """application.ports.ConditionRecords on a key-value bucket."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def load(self, key: str) -> Record | None:
        """The record, or None."""
        entry = await self._bucket.get(key)
        return None if entry is None else decode_record(entry.value, entry.revision)

    async def save(self, record: Record) -> Record:
        """Write over exactly the record's revision."""
        key = record.condition.entity.key
        raw = encode_record(record)
        if record.revision is None:
            return replace(record, revision=await self._bucket.create(key, raw))
        return replace(record, revision=await self._bucket.update(key, raw, record.revision))

    async def drop(self, key: str) -> None:
        """Remove a record."""
        await self._bucket.delete(key)

    async def keys(self) -> list[str]:
        """Of all records."""
        return await self._bucket.keys()
