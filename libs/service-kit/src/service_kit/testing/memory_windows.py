"""Windows over peers in memory: health_ingest.application.peer_ports.PeerWindows without a server."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from service_kit.errors import TransientError


class MemoryWindows:
    """Shared by as many replicas as hold it. `away`: it does not answer; `lose()`: it answers, and is empty."""

    def __init__(self) -> None:
        self.away = False
        self.groups: dict[str, dict[str, bytes]] = {}
        self.rows: dict[str, list[str]] = {}

    def lose(self) -> None:
        """As a server that came back without a disk."""
        self.groups.clear()
        self.rows.clear()

    async def share(self, group: str, member: str, value: bytes) -> Mapping[str, bytes]:
        """See the port."""
        self._reach()
        members = self.groups.setdefault(group, {})
        members[member] = value
        return dict(members)

    async def forget(self, group: str, members: Collection[str]) -> None:
        """See the port."""
        self._reach()
        for member in members:
            self.groups.get(group, {}).pop(member, None)

    async def append(self, entries: Mapping[str, str], *, keep: int) -> Mapping[str, tuple[str, ...]]:
        """See the port."""
        self._reach()
        found = {}
        for row, entry in entries.items():
            kept = self.rows[row] = [*self.rows.get(row, ()), entry][-keep:]
            found[row] = tuple(kept)
        return found

    def _reach(self) -> None:
        if self.away:
            raise TransientError("away")
