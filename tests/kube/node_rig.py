"""The mirror of nodes on the fake cluster: records of Phalanx that a test writes, virtual time, lives that end."""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, cast

from kube_cluster import Cluster
from kube_memory import Killed, MemoryKube
from kube_players import Players

from fault_contracts.hardware import NodeStanding
from fault_contracts.payload import Health, Reason
from fault_contracts.remediation import NodePhase
from recovery_planner.application.mirror_nodes import MirrorNodes
from recovery_planner.application.node_knowledge import NodeKnowledge
from recovery_planner.application.tending_ports import StoredLife
from recovery_planner.domain.kube_nodes import MirrorRules
from recovery_planner.domain.node_life import NodeLife
from service_kit.ports import Bus
from service_kit.testing.virtual_clock import EPOCH, LoopClock


class Records:
    """Both stores."""

    def __init__(self) -> None:
        self.standings: dict[str, NodeStanding] = {}
        self.lives: dict[str, NodeLife] = {}

    async def node_ids(self) -> list[str]:
        return sorted({*self.standings, *self.lives})


class Standings(Records):
    async def load(self, node_id: str) -> NodeStanding | None:
        return self.standings.get(node_id)


class Lives:
    def __init__(self, records: Records) -> None:
        self._records = records

    async def node_ids(self) -> list[str]:
        return sorted(self._records.lives)

    async def load(self, node_id: str) -> StoredLife | None:
        life = self._records.lives.get(node_id)
        return None if life is None else StoredLife(life=life, revision=1)


class Asked:
    """The planner, as far as the operator asks it."""

    def __init__(self, answer: Callable[[dict[str, str]], dict[str, Any] | None]) -> None:
        self.questions: list[dict[str, str]] = []
        self._answer = answer

    async def ask(self, *, what: str, key: str, body: bytes, timeout_s: float) -> bytes | None:
        assert (what, key) == ("tend", "leader")
        self.questions.append(json.loads(body))
        said = self._answer(self.questions[-1])
        return None if said is None else json.dumps(said).encode()


class NodeRig:
    """Cluster, records, and the operator's part that looks after nodes."""

    def __init__(self, *nodes: str, rules: MirrorRules | None = None, **spec: Any) -> None:
        self.clock = LoopClock()
        self.cluster = Cluster(now=lambda: EPOCH + timedelta(seconds=self._elapsed_s()))
        self.players = Players(self.cluster)
        self.records = Standings()
        self.planner = Asked(lambda _: {"ok": True})
        self.rules = rules or MirrorRules()
        self.api = MemoryKube(self.cluster)
        for name in nodes:
            self.players.add_node(name, **spec)
            self.ok(name)
        self.begin()

    @staticmethod
    def _elapsed_s() -> float:
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return 0.0

    def begin(self) -> None:
        """A new life of the operator: it knows nothing."""
        knowledge = NodeKnowledge(self.records, cast(Any, Lives(self.records)), self.clock, changed=lambda: None)
        self.mirror = MirrorNodes(
            api=self.api, bus=cast(Bus, self.planner), clock=self.clock, knowledge=knowledge, rules=self.rules
        )

    def ok(self, name: str) -> None:
        self.records.standings[name] = NodeStanding(node_id=name, fit=Health.OK)
        self.records.lives.pop(name, None)

    def phase(self, name: str, phase: NodePhase, rule_id: str = "node.blamed") -> None:
        reason = Reason(rule_id=rule_id, sentence=f"because of {rule_id}")
        self.records.lives[name] = NodeLife(node_id=name, phase=phase, since=self.now, reason=reason)

    @property
    def now(self) -> datetime:
        return EPOCH + timedelta(seconds=self._elapsed_s())

    async def rounds(self, count: int = 1) -> None:
        """As if everything had just been read."""
        for _ in range(count):
            self.begin()
            await self.mirror.once()

    async def killed_at(self, call: int, *, after: bool) -> bool:
        """One round that ends at this call; False: it came through."""
        self.api.calls, self.api.kill_at, self.api.kill_after = 0, call, after
        self.begin()
        try:
            await self.mirror.once()
        except Killed:
            return True
        finally:
            self.api.kill_at = None
        return False

    def node(self, name: str) -> dict[str, Any]:
        return self.cluster.get("nodes", name)

    def keys(self, name: str) -> set[str]:
        return {taint["key"] for taint in self.node(name)["spec"].get("taints") or ()}

    def condition(self, name: str, type_: str) -> dict[str, Any]:
        return next(each for each in self.node(name)["status"]["conditions"] if each["type"] == type_)

    def events(self) -> list[str]:
        return [event["reason"] for event in self.cluster.all("events")]

    def pod(self, name: str, node: str, **metadata: Any) -> None:
        body = {
            "metadata": {"name": name, **metadata},
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": node},
        }
        self.cluster.create("pods", body, namespace="default")
        self.players.run()
