"""Nodes that the planner gave up → given back to whoever made them: a NodeClaim is deleted, or a webhook is told.

Asked again until the node is gone, so every call means the same when it comes twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol

from recovery_planner.application.kube_ports import (
    NODE_CLAIMS,
    NODES,
    KubeApi,
    KubeConflict,
    KubeEvent,
    KubeNotFound,
    Obj,
)
from recovery_planner.domain.kube_node_seen import REPLACEMENT_ASKED, NodeSeen, time_text
from recovery_planner.domain.kube_retire import Replacement, RetireRules, retire
from recovery_planner.domain.node_life import NodeLife
from service_kit.errors import ServiceError
from service_kit.logging import get_logger
from service_kit.ports import Clock

log = get_logger(__name__)


class ReplacementHook(Protocol):
    """A service that replaces machines."""

    async def replace(self, body: Mapping[str, Any]) -> None:
        """Idempotent by `request_id`.

        Raises:
            ServiceError: not taken.
        """
        ...


class RetireNodes:
    """The cap is kept in memory: a new life of the operator begins to count anew, the planner's breaker does not."""

    def __init__(self, api: KubeApi, clock: Clock, rules: RetireRules, *, hook: ReplacementHook | None = None) -> None:
        assert hook is not None or rules.how is not Replacement.WEBHOOK, "a webhook needs an address"
        self._api = api
        self._clock = clock
        self._rules = rules
        self._hook = hook
        self._retired_at: list[datetime] = []
        self._said: dict[str, str] = {}

    async def once(self, nodes: Iterable[tuple[NodeSeen, NodeLife | None]]) -> None:
        """Every node, with what is known of its life.

        Raises:
            KubeError: the server did not answer, or refuses.
        """
        for seen, life in nodes:
            now = self._clock.now()
            self._retired_at = [at for at in self._retired_at if now - at < timedelta(seconds=self._rules.window_s)]
            decided = retire(seen, life, self._rules, retired_at=tuple(self._retired_at), now=now)
            if decided.why_not or life is None:
                if decided.worth_telling and self._said.get(seen.name) != "capped":
                    self._said[seen.name] = "capped"
                    log.warning("node_not_given_back", node=seen.name, why=decided.why_not)
                continue
            request_id = f"{seen.uid}/{life.story}"
            if seen.replacement_asked == request_id:
                continue
            if await self._give_back(seen, life, request_id):
                self._retired_at.append(now)
                await self._note(seen, request_id)

    async def _give_back(self, seen: NodeSeen, life: NodeLife, request_id: str) -> bool:
        if self._rules.how is Replacement.NODE_CLAIM:
            return await self._delete_claim(seen)
        assert self._hook is not None, "the constructor has looked"
        body = {
            "request_id": request_id,
            "node": seen.name,
            "provider_id": seen.provider_id,
            "reason": life.reason.sentence,
            "rule_id": life.reason.rule_id,
        }
        try:
            await self._hook.replace(body)
        except ServiceError as error:
            log.warning("replacement_not_asked_for", node=seen.name, error=str(error))
            return False
        await self._tell(seen, "ReplacementAsked", "the webhook was told to replace it")
        return True

    async def _delete_claim(self, seen: NodeSeen) -> bool:
        try:
            claims = (await self._api.list(NODE_CLAIMS)).items
        except KubeNotFound:
            await self._tell(seen, "NoNodeClaim", "this cluster has no NodeClaims; nothing was deleted", warning=True)
            return False
        claim = next((each for each in claims if _is_of(each, seen)), None)
        if claim is None:
            await self._tell(seen, "NoNodeClaim", "no NodeClaim has this node; nothing was deleted", warning=True)
            return False
        metadata = claim["metadata"]
        if metadata.get("deletionTimestamp"):
            return True  # somebody was faster
        await self._tell(seen, "NodeClaimDeleted", f"NodeClaim {metadata['name']} is deleted to replace it")
        try:
            await self._api.delete(NODE_CLAIMS, metadata["name"], uid=metadata["uid"])
        except KubeNotFound:
            log.info("node_claim_gone_meanwhile", node=seen.name)
        return True

    async def _note(self, seen: NodeSeen, request_id: str) -> None:
        try:
            await self._api.patch(NODES, seen.name, {"metadata": {"annotations": {REPLACEMENT_ASKED: request_id}}})
        except (KubeNotFound, KubeConflict):
            log.info("node_gone_meanwhile", node=seen.name)

    async def _tell(self, seen: NodeSeen, reason: str, message: str, *, warning: bool = False) -> None:
        about: Obj = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": seen.name, "uid": seen.name}}
        name = f"{seen.name[:180]}.{reason.lower()}.{seen.uid[:8]}"
        at = time_text(self._clock.now())
        await self._api.tell(KubeEvent(about=about, name=name, reason=reason, message=message, warning=warning, at=at))


def _is_of(claim: Obj, seen: NodeSeen) -> bool:
    status = claim.get("status", {})
    same_machine = not seen.provider_id or status.get("providerID", seen.provider_id) == seen.provider_id
    return status.get("nodeName") == seen.name and same_machine
