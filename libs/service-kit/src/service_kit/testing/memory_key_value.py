"""service_kit.ports.KeyValue in memory, with revisions that grow over the whole bucket as JetStream's do."""

from __future__ import annotations

from collections.abc import Mapping

from service_kit.errors import BusUnavailable, CompareAndSetLost
from service_kit.ports import Entry


class MemoryKeyValue:
    """One bucket. Share one object between several users to share the bucket.

    Attributes:
        fail_next: that many following calls raise BusUnavailable without effect.
        lose_acks_next: that many following writes take effect and raise BusUnavailable all the same.
    """

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}
        self._revision = 0
        self.fail_next = 0
        self.lose_acks_next = 0

    async def get(self, key: str) -> Entry | None:
        """See the port."""
        self._maybe_fail()
        return self._entries.get(key)

    async def create(self, key: str, value: bytes) -> int:
        """See the port."""
        self._maybe_fail()
        if key in self._entries:
            raise CompareAndSetLost(f"{key} exists")
        return self._put(key, value)

    async def update(self, key: str, value: bytes, revision: int) -> int:
        """See the port."""
        self._maybe_fail()
        there = self._entries.get(key)
        if there is None or there.revision != revision:
            raise CompareAndSetLost(f"{key} is no longer at revision {revision}")
        return self._put(key, value)

    async def delete(self, key: str) -> None:
        """See the port."""
        self._maybe_fail()
        self._revision += 1
        self._entries.pop(key, None)

    async def keys(self) -> list[str]:
        """See the port."""
        self._maybe_fail()
        return [key for key, _ in sorted(self._entries.items(), key=lambda item: item[1].revision)]

    def entries(self) -> Mapping[str, Entry]:
        """For tests: all live entries."""
        return self._entries

    def _put(self, key: str, value: bytes) -> int:
        self._revision += 1
        self._entries[key] = Entry(value=bytes(value), revision=self._revision)
        if self.lose_acks_next > 0:
            self.lose_acks_next -= 1
            raise BusUnavailable(f"{key}: no acknowledgement")
        return self._revision

    def _maybe_fail(self) -> None:
        if self.fail_next > 0:
            self.fail_next -= 1
            raise BusUnavailable("the store is away")
