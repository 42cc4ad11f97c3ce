"""What Phalanx knows about nodes → what Kubernetes is told of them, again and again until both say the same.

Level-triggered: every round lists the nodes and writes what differs. A message that tells of a change only makes the
next round come at once. Killed between any two calls, the next round does the rest.
"""

from __future__ import annotations

import asyncio
import json

from fault_contracts.envelope import derived_id
from recovery_planner.application.drain_node import DrainNode
from recovery_planner.application.forward_conditions import ForwardConditions
from recovery_planner.application.kube_ports import (
    NODES,
    KubeApi,
    KubeConflict,
    KubeError,
    KubeEvent,
    KubeNotFound,
    Obj,
)
from recovery_planner.application.node_knowledge import NodeKnowledge
from recovery_planner.application.retire_nodes import RetireNodes
from recovery_planner.domain.kube_node_seen import NOT_VALIDATED, Condition, NodeSeen, read_node, time_text
from recovery_planner.domain.kube_nodes import Known, Mirrored, MirrorRules, admitted, mirror
from service_kit.errors import ServiceError, TransientError
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock

LOOK_EVERY_S = 15.0
BACKOFF_MAX_S = 60.0
AT_ONCE = 8
ASK_S = 10.0
GATE_AGAIN_S = 60.0
"""Between two requests to try a node out: its host role may not be there yet."""
OPERATOR = "phalanx-operator"

log = get_logger(__name__)


class MirrorNodes:
    """One process at a time does this: whoever holds the operator's lease."""

    def __init__(
        self,
        *,
        api: KubeApi,
        bus: Bus,
        clock: Clock,
        knowledge: NodeKnowledge,
        rules: MirrorRules,
        labels: str = "",
        forward: ForwardConditions | None = None,
        retire: RetireNodes | None = None,
        woken: asyncio.Event | None = None,
    ) -> None:
        """`woken`: set by whoever knows that something changed."""
        self._api = api
        self._bus = bus
        self._clock = clock
        self._knowledge = knowledge
        self._rules = rules
        self._labels = labels
        self._forward = forward
        self._retire = retire
        self._drain = DrainNode(api)
        self._gate_asked_s: dict[str, float] = {}
        self._woken = woken or asyncio.Event()

    async def run(self) -> None:
        """Until cancelled. A server that is away, or rights that are missing, are waited for."""
        wait_s = LOOK_EVERY_S
        while True:
            self._woken.clear()
            try:
                await self.once()
                wait_s = LOOK_EVERY_S
                await self._sleep(wait_s)
            except (KubeError, TransientError) as error:
                asked_s = error.retry_after_s if isinstance(error, TransientError) else None
                wait_s = min(max(wait_s * 2, asked_s or 0.0), BACKOFF_MAX_S)
                log.warning("nodes_not_mirrored", error=str(error), retry_in_s=wait_s)
                await self._clock.sleep(wait_s)  # not to be woken: it is we who must wait

    async def once(self) -> None:
        """One round over all nodes.

        Raises:
            KubeError: the server did not answer, or refuses; the round is to be repeated.
            TransientError: the same of the store.
        """
        await self._knowledge.refresh()
        listed = await self._api.list(NODES, labels=self._labels)
        nodes = {}
        all_seen = [read_node(raw) for raw in listed.items]
        if self._forward is not None:
            await self._forward.once(all_seen)
        for seen in all_seen:
            known = Known(standing=self._knowledge.standing(seen.name), life=self._knowledge.life(seen.name))
            if known.standing is not None or known.life is not None or seen.has_taint(NOT_VALIDATED) or seen.ours:
                nodes[seen.name] = (seen, known)
        may = admitted(nodes, self._rules)
        room = asyncio.Semaphore(AT_ONCE)

        async def guarded(seen: NodeSeen, known: Known) -> KubeError | None:
            async with room:
                try:
                    await self._one(seen, known, may_keep_out=seen.name in may)
                except KubeConflict as error:
                    log.info("node_changed_meanwhile", node=seen.name, error=str(error))
                except KubeNotFound:
                    log.info("node_gone_meanwhile", node=seen.name)
                except KubeError as error:
                    return error  # the other nodes go on; then the round is repeated later
            return None

        failed = [error for error in await asyncio.gather(*(guarded(*each) for each in nodes.values())) if error]
        if self._retire is not None:
            await self._retire.once((seen, known.life) for seen, known in nodes.values())
        if failed:
            raise failed[0]

    async def _one(self, seen: NodeSeen, known: Known, *, may_keep_out: bool) -> None:
        now = self._clock.now()
        stuck = await self._drain.left(seen.name) if seen.drain_began else ""
        decided = mirror(seen, known, self._rules, may_keep_out=may_keep_out, stuck=stuck, now=now)
        # Told first: killed in between, the same is told again under the same name, and done.
        await self._tell(seen, decided)
        if decided.patch is not None:
            await self._api.patch(NODES, seen.name, decided.patch)
        if decided.conditions:
            await self._say(seen.name, decided.conditions)
        if decided.drain:
            await self._drain.once(seen.name)
        if decided.gate_wanted:
            await self._ask_for_gate(seen.name)

    async def _say(self, node: str, conditions: tuple[Condition, ...]) -> None:
        now = time_text(self._clock.now())
        body = {
            "metadata": {"name": node},
            "status": {
                "conditions": [
                    {
                        "type": each.type,
                        "status": each.status,
                        "reason": each.reason,
                        "message": each.message,
                        "lastTransitionTime": each.since,
                        "lastHeartbeatTime": now,
                    }
                    for each in conditions
                ]
            },
        }
        # Their types are ours alone, whoever wrote into them.
        await self._api.apply(NODES, body, subresource="status", force=True)

    async def _tell(self, seen: NodeSeen, decided: Mirrored) -> None:
        # Events about nodes carry the name as uid, as the kubelet's do: `kubectl describe node` looks for that.
        about: Obj = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": seen.name, "uid": seen.name}}
        for reason, message, warning in decided.events:
            # The version that was decided on names the event: the same decision is told once.
            ident = derived_id(OPERATOR, seen.uid, seen.version, reason)[:16]
            await self._api.tell(
                KubeEvent(
                    about=about,
                    name=f"{seen.name[:200]}.{ident}",
                    reason=reason,
                    message=message,
                    warning=warning,
                    at=time_text(self._clock.now()),
                )
            )

    async def _ask_for_gate(self, node: str) -> None:
        """A new node with the startup taint: held by us and let go again, it goes through the planner's gate."""
        now_s = self._clock.monotonic_s()
        if now_s - self._gate_asked_s.get(node, -GATE_AGAIN_S) < GATE_AGAIN_S:
            return
        self._gate_asked_s[node] = now_s
        for verb in ("quarantine", "release"):
            asked = {"verb": verb, "node_id": node, "by": OPERATOR, "reason": f"startup taint {NOT_VALIDATED}"}
            try:
                raw = await self._bus.ask(what="tend", key="leader", body=json.dumps(asked).encode(), timeout_s=ASK_S)
            except ServiceError as error:
                log.warning("gate_not_asked_for", node=node, error=str(error))
                return
            answer = json.loads(raw) if raw else {"ok": False, "error": "no planner leads"}
            if not answer.get("ok"):
                log.info("gate_not_begun", node=node, why=answer.get("error", ""))
                return

    async def _sleep(self, duration_s: float) -> None:
        sleeping = asyncio.ensure_future(self._clock.sleep(duration_s))
        waking = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait({sleeping, waking}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()
            waking.cancel()
