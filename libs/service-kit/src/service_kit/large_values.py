"""A KeyValue for values that are larger than one message of the bus: deflated, and when still too large, in parts.

Small values stay as they are, so that people and tools read them. A deflated one begins with a line of JSON:

    {"form":"zlib"}                               and the deflated value behind it
    {"form": "parts", "name": "...", "count": 3}  and nothing: the deflated value stands under `count` keys of its own

Parts are written under names that nobody refers to yet, then the head is written with compare-and-set, then the parts
of the value before are removed. A writer that is killed, or that loses the compare-and-set, leaves parts that no head
names: they cost room and nothing else, and go with the value.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from service_kit.errors import CompareAndSetLost, ContractViolation, TransientError
from service_kit.logging import get_logger
from service_kit.ports import Entry, KeyValue

PLAIN_BYTES_MAX = 64_000
"""Above it a value is deflated; below, half a millisecond saved is worth less than a record that can be read."""
HEAD_BYTES_MAX = 950_000
"""One message takes 1,040,000 bytes with its headers (service_kit.jetstream.streams)."""
PARTS_MAX = 64
"""60 MB deflated: a job of 100,000 agents takes 10 of them."""
VALUE_BYTES_MAX = 512 << 20
"""What a deflated value may become; a damaged one must not eat the memory of whoever reads it."""
LEVEL = 1
"""Of zlib: level 6 saves 11 % of the size and costs twice the time, on the path of a recovery."""
READS_MAX = 8
"""A reader that meets a writer reads again; so often in a row nobody writes."""
_PART_MARK = "\0part/"
"""First character of no name that a person can type: part keys and keys of values do not meet."""

log = get_logger(__name__)


class ValueTooLarge(ContractViolation):
    """Even deflated and in parts it is over the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What a head says of its parts."""

    name: str
    count: int

    def keys(self, key: str) -> list[str]:
        return [f"{_prefix(key)}{self.name}/{number}" for number in range(self.count)]


class LargeValues:
    """service_kit.ports.KeyValue over another one. Its revisions are those of the heads."""

    def __init__(
        self, bucket: KeyValue, *, plain_bytes_max: int = PLAIN_BYTES_MAX, head_bytes_max: int = HEAD_BYTES_MAX
    ) -> None:
        self._bucket = bucket
        self._plain_bytes_max = plain_bytes_max
        self._head_bytes_max = head_bytes_max
        self._parts: dict[str, _Parts] = {}
        """Of the newest value that this process read or wrote."""

    async def get(self, key: str) -> Entry | None:
        """See the port.

        Raises:
            ContractViolation: the value is damaged.
            TransientError: it was written anew faster than it could be read.
        """
        known: Entry | None = None
        for _ in range(READS_MAX):
            head = await self._bucket.get(key)
            if head is None:
                self._parts.pop(key, None)
                return None
            parts = _parts_of(head.value)
            self._note(key, parts)
            if parts is None:
                return Entry(value=_plain(head.value), revision=head.revision)
            found = await asyncio.gather(*(self._bucket.get(part) for part in parts.keys(key)))
            there = [part.value for part in found if part is not None]
            if len(there) == parts.count:
                return Entry(value=_inflated(b"".join(there)), revision=head.revision)
            if known is not None and known.revision == head.revision:
                raise ContractViolation(f"{key}: {parts.count - len(there)} of {parts.count} parts are missing")
            known = head
        raise TransientError(f"{key} was written anew {READS_MAX} times while it was read")

    async def revision(self, key: str) -> int | None:
        """Of the newest value, without reading its parts; None when absent."""
        head = await self._bucket.get(key)
        return None if head is None else head.revision

    async def create(self, key: str, value: bytes) -> int:
        """See the port."""
        return await self._write(key, value, None)

    async def update(self, key: str, value: bytes, revision: int) -> int:
        """See the port."""
        return await self._write(key, value, revision)

    async def delete(self, key: str) -> None:
        """See the port. The head first: without it nobody looks for the parts."""
        head = await self._bucket.get(key)
        await self._bucket.delete(key)
        had_parts = self._parts.pop(key, None) is not None
        if had_parts or (head is not None and _parts_of(head.value) is not None):
            await self._remove([name for name in await self._bucket.keys() if name.startswith(_prefix(key))])

    async def keys(self) -> list[str]:
        """See the port."""
        return [name for name in await self._bucket.keys() if not name.startswith(_PART_MARK)]

    async def _write(self, key: str, value: bytes, revision: int | None) -> int:
        before = self._parts.get(key)
        head, parts = value, None
        if len(value) > self._plain_bytes_max:
            deflated = zlib.compress(value, LEVEL)
            head = b'{"form":"zlib"}\n' + deflated
            if len(head) > self._head_bytes_max:
                parts = await self._write_parts(key, deflated, revision)
                head = json.dumps({"form": "parts", "name": parts.name, "count": parts.count}).encode()
        written = await (
            self._bucket.create(key, head) if revision is None else self._bucket.update(key, head, revision)
        )
        self._note(key, parts)
        if before is not None and before != parts:
            await self._remove(before.keys(key))
        return written

    async def _write_parts(self, key: str, deflated: bytes, revision: int | None) -> _Parts:
        size = self._head_bytes_max
        pieces = [deflated[at : at + size] for at in range(0, len(deflated), size)]
        if len(pieces) > PARTS_MAX:
            raise ValueTooLarge(f"{key}: {len(deflated)} bytes deflated, {PARTS_MAX} parts are the limit")
        # By content and by what it replaces: a repeat writes the same parts again, a rival never touches them.
        name = hashlib.sha256(b"%d/%b" % (revision or 0, deflated)).hexdigest()[:32]
        parts = _Parts(name=name, count=len(pieces))
        await asyncio.gather(*map(self._write_part, parts.keys(key), pieces))
        return parts

    async def _write_part(self, key: str, piece: bytes) -> None:
        try:
            await self._bucket.create(key, piece)
        except CompareAndSetLost:
            pass  # written before the head was refused or lost: its name says that it is the same

    def _note(self, key: str, parts: _Parts | None) -> None:
        if parts is None:
            self._parts.pop(key, None)
        else:
            self._parts[key] = parts

    async def _remove(self, keys: Sequence[str]) -> None:
        """Parts that no head names. One that stays is removed with its value."""
        outcomes = await asyncio.gather(*map(self._bucket.delete, keys), return_exceptions=True)
        failed = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failed:
            log.warning("parts_left_over", parts=len(failed), error=str(failed[0]))


def _prefix(key: str) -> str:
    """Hashed, because a key may already be as long as the bus takes."""
    return f"{_PART_MARK}{hashlib.sha256(key.encode()).hexdigest()[:32]}/"


def _parts_of(head: bytes) -> _Parts | None:
    if not head.startswith(b'{"form": "parts"'):
        return None
    try:
        said = json.loads(head)
        name, count = str(said["name"]), int(said["count"])
    except (ValueError, KeyError, TypeError) as error:
        raise ContractViolation(f"the head of a value in parts is damaged: {error}") from error
    if not 1 <= count <= PARTS_MAX:
        raise ContractViolation(f"a value in {count} parts; 1 to {PARTS_MAX} are possible")
    return _Parts(name=name, count=count)


def _plain(head: bytes) -> bytes:
    mark = b'{"form":"zlib"}\n'
    return _inflated(head[len(mark) :]) if head.startswith(mark) else head


def _inflated(deflated: bytes) -> bytes:
    inflater = zlib.decompressobj()
    try:
        value = inflater.decompress(deflated, VALUE_BYTES_MAX)
    except zlib.error as error:
        raise ContractViolation(f"a deflated value is damaged: {error}") from error
    if inflater.unconsumed_tail or not inflater.eof:
        raise ContractViolation(f"a deflated value is cut off, or over {VALUE_BYTES_MAX} bytes")
    return value
