"""When each node was last heard, and in which boot: quiet counts only on a node that lives.

In memory: after a restart a node is unknown until it says something again, which a host agent does every ten minutes.
"""

from __future__ import annotations

from datetime import datetime

from health_ingest.domain.reset import Reset

NODES_MAX = 100_000
"""Some 30 MB; the node that was silent longest goes first."""


class NodesHeard:
    """By node id."""

    def __init__(self) -> None:
        self._heard_at: dict[str, datetime] = {}
        self._boots: dict[str, Reset] = {}

    def at(self, node_id: str) -> datetime | None:
        """This service's time of the node's last message; None: not since this process started."""
        return self._heard_at.get(node_id)

    def heard(self, node_id: str, now: datetime) -> None:
        """A message of the node's agent was taken in."""
        self._heard_at.pop(node_id, None)  # so that the order is the order of hearing
        self._heard_at[node_id] = now
        if len(self._heard_at) > NODES_MAX:
            gone = next(iter(self._heard_at))
            del self._heard_at[gone]
            self._boots.pop(gone, None)

    def is_new_boot(self, node_id: str, boot_id: str, observed_at: datetime) -> bool:
        """Whether a message tells of a boot that is not known yet; one of an older boot that comes late does not."""
        known = self._boots.get(node_id)
        return bool(boot_id) and (known is None or (known.boot_id != boot_id and observed_at > known.at))

    def booted(self, event: Reset) -> None:
        """What a new boot ends is ended."""
        self._boots[event.node_id] = event

    def boot(self, node_id: str) -> Reset | None:
        """The boot that the node is in, as far as it was heard."""
        return self._boots.get(node_id)
