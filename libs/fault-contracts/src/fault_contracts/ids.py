"""Ids that derive from their cause: no clock and no random, so whoever handles a cause again gets the same id."""

from __future__ import annotations

from hashlib import blake2b


def derived_id(cause_id: str, type_: str, *parts: str | int) -> str:
    """An id that is the same whenever the same cause is handled again, so that a redelivery dedupes."""
    digest = blake2b(digest_size=16)
    for part in (cause_id, type_, *map(str, parts)):
        raw = part.encode()
        digest.update(len(raw).to_bytes(4, "big"))
        digest.update(raw)
    return digest.hexdigest()
