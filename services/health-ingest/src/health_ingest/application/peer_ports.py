"""Windows over peers that all replicas share. Adapter: adapters/redis_windows.py; fake: in the tests, same suite.

Everything here may be lost at any time: it is filled again by the next sweeps, and nothing is judged meanwhile.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from service_kit.errors import TransientError


class WindowsUnavailable(TransientError):
    """The store does not answer, or is full. The adapter owns the reconnect; whoever asks goes on without."""


class PeerWindows(Protocol):
    """Two shapes, both bounded and both forgotten when nobody writes any more."""

    async def share(self, group: str, member: str, value: bytes) -> Mapping[str, bytes]:
        """Put a member's newest value into a group, and read those of all members.

        Raises:
            WindowsUnavailable: see there.
        """
        ...

    async def forget(self, group: str, members: Collection[str]) -> None:
        """Take members out of a group.

        Raises:
            WindowsUnavailable: see there.
        """
        ...

    async def append(self, entries: Mapping[str, str], *, keep: int) -> Mapping[str, tuple[str, ...]]:
        """Append to rows, one entry each, and read the newest `keep` of each row, oldest first.

        Raises:
            WindowsUnavailable: see there.
        """
        ...
