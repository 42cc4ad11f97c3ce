"""Ledger entries in the bucket `quarantine`: `device/<id>` is an entry, `board/<hash>` names the device of a board."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

from pydantic import ValidationError

from fault_contracts.envelope import Envelope, open_envelope
from fault_contracts.hardware import LedgerEntry
from fault_contracts.ids import derived_id
from fault_contracts.payload import Payload
from health_ingest.application.hardware_ports import LedgerRecord
from service_kit.errors import CompareAndSetLost, PermanentError
from service_kit.ports import KeyValue

RECORD_VERSION = 1
_DEVICE, _BOARD = "device/", "board/"


class KvLedger:
    """application.hardware_ports.LedgerRecords on a key-value bucket."""

    def __init__(self, bucket: KeyValue) -> None:
        self._bucket = bucket

    async def load(self, device_id: str) -> LedgerRecord | None:
        """The record, or None."""
        found = await self._bucket.get(_key(device_id))
        return None if found is None else _decode(found.value, found.revision)

    async def listed_as(self, board_serial: str, pci_vendor_data: str) -> str | None:
        """See the port."""
        key = _board_key(board_serial, pci_vendor_data)
        found = None if key is None else await self._bucket.get(key)
        return None if found is None else found.value.decode()

    async def save(self, record: LedgerRecord) -> LedgerRecord:
        """The board first: a name that leads to no entry yet harms nobody, an entry without it could be missed."""
        entry = record.entry
        key = _board_key(entry.board_serial, entry.pci_vendor_data)
        if key is not None and await self._bucket.get(key) is None:
            with suppress(CompareAndSetLost):  # another replica noted the same board at the same moment
                await self._bucket.create(key, entry.device_id.encode())
        raw = _encode(record)
        if record.revision is None:
            return replace(record, revision=await self._bucket.create(_key(entry.device_id), raw))
        return replace(record, revision=await self._bucket.update(_key(entry.device_id), raw, record.revision))

    async def device_ids(self) -> list[str]:
        """Of all entries; a name that is too long for a key is read from its entry."""
        keys = [key for key in await self._bucket.keys() if key.startswith(_DEVICE)]
        return [key.removeprefix(_DEVICE) for key in keys]


def _key(device_id: str) -> str:
    # Names may have 256 characters and keys 256 bytes, encoded: a longer one is listed by its digest.
    return _DEVICE + (device_id if len(device_id.encode()) <= 64 else derived_id(device_id, "device"))


def _board_key(board_serial: str, pci_vendor_data: str) -> str | None:
    if not board_serial or not pci_vendor_data:
        return None
    return _BOARD + derived_id(board_serial, "board", pci_vendor_data)


def _encode(record: LedgerRecord) -> bytes:
    return json.dumps(
        {
            "v": RECORD_VERSION,
            "entry": record.entry.model_dump(mode="json"),
            "pending": [envelope.to_bytes().decode() for envelope in record.pending],
        }
    ).encode()


def _decode(raw: bytes, revision: int) -> LedgerRecord:
    try:
        body = json.loads(raw)
        if body["v"] != RECORD_VERSION:
            raise PermanentError(f"ledger record of version {body['v']}; this service reads {RECORD_VERSION}")
        pending: tuple[Envelope[Payload], ...] = tuple(open_envelope(text.encode()) for text in body["pending"])
        entry = LedgerEntry.model_validate(body["entry"])
    except (ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
        raise PermanentError(f"ledger record does not decode: {error}") from error
    return LedgerRecord(entry=entry, pending=pending, revision=revision)
