"""Gang records and confirmed checkpoints in key-value buckets, key = job_id.

A record of 12,500 nodes has 4 MB in plain, and the bus carries 1 MB a message: see `service_kit.large_values`.
"""

from __future__ import annotations

from recovery_planner.adapters.gang_codec import decode_gang, decode_history, encode_gang, encode_history
from recovery_planner.application.ports import StoredGang, StoredHistory
from recovery_planner.domain.checkpoint_history import CheckpointHistory
from recovery_planner.domain.gang import Gang
from service_kit.large_values import LargeValues
from service_kit.ports import KeyValue


class KvGangs:
    """GangStore on a bucket."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = LargeValues(bucket)

    async def load(self, job_id: str) -> StoredGang | None:
        """See the port."""
        entry = await self._bucket.get(job_id)
        return None if entry is None else StoredGang(gang=decode_gang(entry.value), revision=entry.revision)

    async def revision(self, job_id: str) -> int | None:
        """See the port."""
        return await self._bucket.revision(job_id)

    async def save(self, gang: Gang, revision: int | None) -> int:
        """See the port."""
        value = encode_gang(gang)
        if revision is None:
            return await self._bucket.create(gang.job_id, value)
        return await self._bucket.update(gang.job_id, value, revision)

    async def delete(self, job_id: str) -> None:
        """See the port."""
        await self._bucket.delete(job_id)

    async def job_ids(self) -> list[str]:
        """See the port."""
        return await self._bucket.keys()


class KvCheckpoints:
    """CheckpointStore on a bucket."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = LargeValues(bucket)

    async def load(self, job_id: str) -> StoredHistory | None:
        """See the port."""
        entry = await self._bucket.get(job_id)
        return None if entry is None else StoredHistory(history=decode_history(entry.value), revision=entry.revision)

    async def save(self, job_id: str, history: CheckpointHistory, revision: int | None) -> int:
        """See the port."""
        value = encode_history(history)
        if revision is None:
            return await self._bucket.create(job_id, value)
        return await self._bucket.update(job_id, value, revision)

    async def delete(self, job_id: str) -> None:
        """See the port."""
        await self._bucket.delete(job_id)
