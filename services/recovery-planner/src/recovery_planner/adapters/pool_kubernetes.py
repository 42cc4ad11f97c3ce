"""A pool whose nodes come and go by way of Kubernetes: the planner only notes and waits, the operator acts.

Giving back: the record says that the node is replaced; the operator reads it and deletes the NodeClaim, tells the
webhook, or leaves it cordoned. Coming: a node that first tells what is in it after the request was made is the answer;
whoever makes nodes there knows of no request, so any new one is as good as another.
"""

from __future__ import annotations

from collections.abc import Mapping

from recovery_planner.application.ports import NodeStandingStore
from recovery_planner.application.tending_ports import PoolAnswer

REQUESTS_KEPT = 1_000
"""A request lives for some hours; the oldest are forgotten, and asked again they begin anew."""


class KubernetesPool:
    """tending_ports.NodePool. Which nodes were there at the request is kept in memory.

    A planner that dies begins to wait anew; a node that came meanwhile is not counted as an answer, and works all the
    same once it is through the gate.
    """

    def __init__(self, nodes: NodeStandingStore) -> None:
        self._nodes = nodes
        self._before: dict[str, frozenset[str]] = {}
        self._given: dict[str, str] = {}

    async def retire(self, node_id: str, *, request_id: str, reason: str) -> None:
        """See the port; the operator does it."""

    async def acquire(self, *, request_id: str, labels: Mapping[str, str]) -> PoolAnswer:  # noqa: ARG002 - the port
        """The first new node that no other request got."""
        if request_id in self._given:
            return PoolAnswer(node_id=self._given[request_id])
        names = frozenset(await self._nodes.node_ids())
        before = self._before.setdefault(request_id, names)
        while len(self._before) > REQUESTS_KEPT:
            self._before.pop(next(iter(self._before)))
        new = sorted(names - before - set(self._given.values()))
        if not new:
            return PoolAnswer()
        self._given[request_id] = new[0]
        return PoolAnswer(node_id=new[0])
