"""Evidence records in the bucket `evidence`: one JSON record a job, written with its revision."""

from __future__ import annotations

import json
from dataclasses import replace

from pydantic import TypeAdapter, ValidationError

from fault_classifier.application.ports import Record
from fault_classifier.domain.evidence import JobEvidence
from fault_contracts.envelope import Envelope, open_envelope
from fault_contracts.payload import Payload
from service_kit.errors import PermanentError
from service_kit.ports import KeyValue

RECORD_VERSION = 1
_JOB = TypeAdapter(JobEvidence)


def encode_record(record: Record) -> bytes:
    """The record as JSON."""
    return json.dumps(
        {
            "v": RECORD_VERSION,
            "job": _JOB.dump_python(record.job, mode="json"),
            "pending": [envelope.to_bytes().decode() for envelope in record.pending],
        }
    ).encode()


def decode_record(raw: bytes, revision: int) -> Record:
    """Inverse of `encode_record`.

    Raises:
        PermanentError: written by a newer version, or not a record.
    """
    try:
        body = json.loads(raw)
        version = body["v"]
        if version != RECORD_VERSION:
            raise PermanentError(f"evidence record of version {version}; this service reads {RECORD_VERSION}")
        pending: tuple[Envelope[Payload], ...] = tuple(open_envelope(text.encode()) for text in body["pending"])
        job = _JOB.validate_python(body["job"])
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
        raise PermanentError(f"evidence record does not decode: {error}") from error
    return Record(job=job, pending=pending, revision=revision)


class KvEvidence:
    """application.ports.EvidenceRecords on a key-value bucket."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def load(self, job_id: str) -> Record | None:
        """The record, or None."""
        entry = await self._bucket.get(job_id)
        return None if entry is None else decode_record(entry.value, entry.revision)

    async def save(self, record: Record) -> Record:
        """Write over exactly the record's revision."""
        raw = encode_record(record)
        if record.revision is None:
            return replace(record, revision=await self._bucket.create(record.job.job_id, raw))
        return replace(record, revision=await self._bucket.update(record.job.job_id, raw, record.revision))

    async def drop(self, job_id: str) -> None:
        """Remove a record."""
        await self._bucket.delete(job_id)

    async def job_ids(self) -> list[str]:
        """Of all records."""
        return await self._bucket.keys()
