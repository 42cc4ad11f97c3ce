"""What the leader knows of nodes' standings: read once, then kept current by the messages that tell of a change."""

from __future__ import annotations

from fault_contracts.hardware import NodeStanding
from recovery_planner.application.ports import NodeStandingStore
from recovery_planner.domain.node_fit import ADMITTED, Fits, NodeFit, both, fit_of
from service_kit.errors import PermanentError
from service_kit.logging import get_logger

log = get_logger(__name__)


class StandingBook:
    """Fits by node_id. One entry per node of the cluster's jobs: some kilobytes each at most."""

    def __init__(self, store: NodeStandingStore, *, ok_demanded: bool) -> None:
        self._store = store
        self._ok_demanded = ok_demanded
        self._fits: dict[str, NodeFit] = {}
        self._own: dict[str, NodeFit] = {}
        """What standings say; `_fits` has what is done about a node beside it."""
        self._lives: dict[str, NodeFit] = {}
        self._versions: dict[str, int] = {}

    @property
    def fits(self) -> Fits:
        """As they are now; the same object for ever."""
        return self._fits

    async def know(self, node_id: str) -> None:
        """Read a node's standing unless it is known.

        Raises:
            TransientError: the store did not answer.
        """
        if not node_id or node_id in self._own:
            return
        try:
            standing = await self._store.load(node_id)
        except PermanentError as error:
            # A record that cannot be read says nothing: unknown, as if there were none.
            log.error("node_standing_unreadable", node_id=node_id, error=str(error))
            standing = None
        if node_id not in self._own:  # a message may have come meanwhile, and it is newer
            self._put(node_id, standing)

    def take(self, standing: NodeStanding) -> bool:
        """A standing has changed; True: it means something else for placement than what was known."""
        node_id = standing.node_id
        if standing.version <= self._versions.get(node_id, -1):
            return False
        before = self._fits.get(node_id, ADMITTED)
        self._put(node_id, standing)
        return self._fits[node_id] != before

    async def overlay(self, node_id: str, fit: NodeFit) -> bool:
        """What is done about a node; True: it means something else for placement than what was known.

        Raises:
            TransientError: the store did not answer; what the standing says must not be lost beside it.
        """
        if self._lives.get(node_id, ADMITTED) == fit:
            return False
        await self.know(node_id)
        before = self._fits.get(node_id, ADMITTED)
        self._lives[node_id] = fit
        self._combine(node_id)
        return self._fits[node_id] != before

    def forget(self) -> None:
        """Somebody else leads from now on; what is kept here grows old."""
        self._fits.clear()
        self._own.clear()
        self._lives.clear()
        self._versions.clear()

    def _put(self, node_id: str, standing: NodeStanding | None) -> None:
        self._own[node_id] = fit_of(standing, ok_demanded=self._ok_demanded)
        self._versions[node_id] = -1 if standing is None else standing.version
        self._combine(node_id)

    def _combine(self, node_id: str) -> None:
        self._fits[node_id] = both(self._lives.get(node_id, ADMITTED), self._own.get(node_id, ADMITTED))
