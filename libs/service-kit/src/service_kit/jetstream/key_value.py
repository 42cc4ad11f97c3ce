"""KeyValue on a JetStream bucket, with compare-and-set on the key's own subject.

Written on the raw subjects because nats-py's bucket returns a live entry for an expired key and cannot create over its
marker. Keys stand under the cluster's token: `$KV.<bucket>.<cluster>.<key>`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from nats.aio.msg import Msg

from fault_contracts.registry import Bucket
from fault_contracts.subjects import decode_token, encode_token
from service_kit.errors import BusUnavailable, CompareAndSetLost
from service_kit.jetstream.connection import Connection
from service_kit.jetstream.direct_get import Stored, last_message
from service_kit.jetstream.publisher import Publisher
from service_kit.jetstream.server_answer import WRONG_LAST_SEQUENCE, ServerRefusal, status_of
from service_kit.jetstream.streams import call_api
from service_kit.ports import Entry

WRITE_LIMIT_S = 10.0
"""Outlasts a JetStream leader election (up to 7.9 s measured)."""
KEYS_LIMIT_S = 10.0
KEYS_BATCH = 1_000
MARKER_TTL = "24h"
"""How long the marker of a deleted key stays for readers that look back; without it every key ever used would stay."""
_MARKER_HEADERS = ("KV-Operation", "Nats-Marker-Reason")


class JetStreamKeyValue:
    """service_kit.ports.KeyValue on one bucket."""

    def __init__(
        self, connection: Connection, bucket: Bucket, *, cluster: str, publisher: Publisher | None = None
    ) -> None:
        self._connection = connection
        self._publisher = publisher or Publisher(connection)
        self._stream = f"KV_{bucket}"
        self._prefix = f"$KV.{bucket}.{encode_token(cluster)}"

    async def get(self, key: str) -> Entry | None:
        """See the port."""
        stored = await last_message(self._connection, self._stream, self._subject(key))
        if stored is None or _is_marker(stored.headers):
            return None
        return Entry(value=stored.body, revision=stored.sequence)

    async def create(self, key: str, value: bytes) -> int:
        """See the port. A deleted or expired key may be created again: its marker is written over."""
        subject = self._subject(key)
        try:
            return await self._write(subject, value, revision=0)
        except CompareAndSetLost:
            there: Stored | None = await last_message(self._connection, self._stream, subject)
            if there is None or not _is_marker(there.headers):
                raise
            return await self._write(subject, value, revision=there.sequence)

    async def update(self, key: str, value: bytes, revision: int) -> int:
        """See the port."""
        return await self._write(self._subject(key), value, revision=revision)

    async def delete(self, key: str) -> None:
        """See the port. Deleting what is not there is no error."""
        headers = {"KV-Operation": "PURGE", "Nats-Rollup": "sub", "Nats-TTL": MARKER_TTL}
        try:
            await self._publisher.publish(self._subject(key), b"", headers, limit_s=WRITE_LIMIT_S)
        except ServerRefusal as refusal:
            raise refusal.as_failure() from refusal

    async def keys(self) -> list[str]:
        """See the port. In the order of their last change; one short-lived consumer, headers only."""
        config = {
            "deliver_policy": "last_per_subject",
            "ack_policy": "none",
            "filter_subjects": [f"{self._prefix}.*"],
            "headers_only": True,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": int(KEYS_LIMIT_S * 1e9),
        }
        try:
            created = await call_api(
                self._connection,
                f"CONSUMER.CREATE.{self._stream}",
                {"stream_name": self._stream, "config": config},
            )
        except ServerRefusal as refusal:
            raise refusal.as_failure() from refusal
        name, pending = created["name"], int(created.get("num_pending", 0))
        try:
            return await self._read_keys(name, pending)
        finally:
            # Left alone it would go by its inactive_threshold; the limit of consumers is counted, so it goes now.
            await self._forget(name)

    async def _read_keys(self, consumer: str, pending: int) -> list[str]:
        inbox = self._connection.inbox()
        arrived: asyncio.Queue[Msg] = asyncio.Queue()
        subscription = await self._connection.client.subscribe(inbox, cb=arrived.put)
        found: list[str] = []
        try:
            async with asyncio.timeout(KEYS_LIMIT_S):
                while pending > 0:
                    batch = min(pending, KEYS_BATCH)
                    body = b'{"batch":%d,"expires":%d}' % (batch, int(KEYS_LIMIT_S * 1e9))
                    subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{consumer}"
                    await self._connection.client.publish(subject, body, reply=inbox)
                    for _ in range(batch):
                        msg = await arrived.get()
                        if status_of(msg) is not None:
                            raise BusUnavailable(f"keys of {self._stream}: {msg.headers}")
                        if not _is_marker(msg.headers or {}):
                            found.append(decode_token(msg.subject.rpartition(".")[2]))
                    pending -= batch
        except TimeoutError as error:
            raise BusUnavailable(f"keys of {self._stream}: not all within {KEYS_LIMIT_S:g} s") from error
        finally:
            if not self._connection.client.is_closed:
                await subscription.unsubscribe()
        return found

    async def _forget(self, consumer: str) -> None:
        try:
            await call_api(self._connection, f"CONSUMER.DELETE.{self._stream}.{consumer}", {})
        except (ServerRefusal, BusUnavailable):
            return  # its inactive_threshold removes it

    async def _write(self, subject: str, value: bytes, *, revision: int) -> int:
        headers = {"Nats-Expected-Last-Subject-Sequence": str(revision)}
        try:
            ack = await self._publisher.publish(subject, value, headers, limit_s=WRITE_LIMIT_S)
        except ServerRefusal as refusal:
            if refusal.err_code in WRONG_LAST_SEQUENCE:
                raise CompareAndSetLost(f"{subject} is no longer at revision {revision}") from refusal
            raise refusal.as_failure() from refusal
        return ack.sequence

    def _subject(self, key: str) -> str:
        return f"{self._prefix}.{encode_token(key)}"


def _is_marker(headers: Mapping[str, str]) -> bool:
    """Whether a message only says that the key is gone."""
    return any(name in headers for name in _MARKER_HEADERS)
