"""What others say of a node in its conditions (the kubelet, node-problem-detector, NVSentinel) → health-ingest.

Sent when it changed, and all of it now and then: a condition may have been told while nobody listened. What a condition
means is health-ingest's table; nothing is chosen here but that our own words do not come back to us.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from recovery_planner.domain.kube_node_seen import Condition, NodeSeen
from service_kit.errors import ServiceError
from service_kit.logging import get_logger
from service_kit.ports import Clock

ALL_EVERY_S = 600.0
NODES_MAX = 50
"""In one round: the door takes 50 requests a second. The others come in the next round."""

log = get_logger(__name__)


class SignalDoor(Protocol):
    """health-ingest's door for signals of other systems."""

    async def tell(self, body: Mapping[str, Any]) -> None:
        """The conditions of one node.

        Raises:
            TransientError: not taken now; the same is to be sent again.
            PermanentError: refused.
        """
        ...


class ForwardConditions:
    """Remembers in memory what was sent: a new life sends all of it once, and copies are dropped there."""

    def __init__(self, door: SignalDoor, clock: Clock) -> None:
        self._door = door
        self._clock = clock
        self._sent: dict[str, tuple[tuple[tuple[str, str, str, str], ...], float]] = {}

    async def once(self, nodes: Iterable[NodeSeen]) -> None:
        """Whatever changed. A door that is closed holds up nothing else."""
        now_s, sent, names = self._clock.monotonic_s(), 0, set()
        for seen in nodes:
            names.add(seen.name)
            words = tuple(sorted((each.type, *each.said) for each in seen.others))
            known = self._sent.get(seen.name)
            if not words or sent >= NODES_MAX or (known and known[0] == words and now_s - known[1] < ALL_EVERY_S):
                continue
            sent += 1
            try:
                await self._door.tell(_body(seen))
            except ServiceError as error:
                log.warning("conditions_not_forwarded", node=seen.name, error=str(error))
                return
            self._sent[seen.name] = (words, now_s)
        for gone in set(self._sent) - names:
            del self._sent[gone]


def _body(seen: NodeSeen) -> Mapping[str, Any]:
    return {"nodeName": seen.name, "conditions": [_raw(each) for each in seen.others]}


def _raw(condition: Condition) -> Mapping[str, str]:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.since,
    }
