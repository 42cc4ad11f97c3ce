"""Evict what is left on a node, one try: disruption budgets are asked, and nothing is forced."""

from __future__ import annotations

from collections.abc import Mapping

from recovery_planner.application.kube_ports import PODS, KubeApi, KubeNotFound, KubeTooManyRequests
from recovery_planner.domain.kube_drain import Leaving, pods_to_evict, stuck_words
from service_kit.errors import CompareAndSetLost
from service_kit.logging import get_logger

EVICTIONS_MAX = 20
"""In one round of one node: the others come in the next."""

log = get_logger(__name__)


class DrainNode:
    """One round each; whoever calls it keeps the time."""

    def __init__(self, api: KubeApi) -> None:
        self._api = api

    async def left(self, node: str) -> str:
        """What would be evicted now, in words; empty: nothing. Nothing is done.

        Raises:
            KubeError: the server did not say.
        """
        return _words(dict.fromkeys(await self._leaving(node), "still there"))

    async def once(self, node: str) -> str:
        """Ask for each pod to leave; returns which may not, in words.

        Raises:
            KubeError: the server did not answer, or is throttling; the round is over.
        """
        refused: dict[Leaving, str] = {}
        pods = await self._leaving(node)
        for pod in pods[:EVICTIONS_MAX]:
            try:
                await self._api.evict(pod.name, namespace=pod.namespace, uid=pod.uid)
                log.info("pod_evicted", node=node, namespace=pod.namespace, pod=pod.name)
            except KubeTooManyRequests as error:
                if not error.is_budget:
                    raise
                refused[pod] = "its disruption budget forbids it now"
            except (KubeNotFound, CompareAndSetLost):
                continue  # it left by itself, or another one has its name by now
        return _words(refused)

    async def _leaving(self, node: str) -> tuple[Leaving, ...]:
        listed = await self._api.list(PODS, fields=f"spec.nodeName={node}")
        return pods_to_evict(listed.items)


def _words(refused: Mapping[Leaving, str]) -> str:
    return stuck_words({f"{pod.namespace}/{pod.name}": why for pod, why in refused.items()})
