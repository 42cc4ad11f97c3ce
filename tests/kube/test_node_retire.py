"""Nodes that were given up, given back: the right NodeClaim once, never another machine's, and never too many."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import kube_registry
from kube_memory import Killed
from node_rig import NodeRig

from fault_contracts.remediation import NodePhase
from recovery_planner.application.retire_nodes import RetireNodes
from recovery_planner.domain.kube_node_seen import read_node
from recovery_planner.domain.kube_nodes import MirrorRules
from recovery_planner.domain.kube_retire import Replacement, RetireRules
from service_kit.errors import TransientError
from service_kit.testing.virtual_clock import run_virtual

CLAIMS = RetireRules(how=Replacement.NODE_CLAIM)
GROUP = "karpenter.sh"


def rig_of(*names: str) -> NodeRig:
    rig = NodeRig(*names, rules=MirrorRules(share_max=1))
    rig.cluster.register(kube_registry.NODE_CLAIMS)
    for name in names:
        rig.cluster.patch("nodes", name, {"spec": {"providerID": f"cloud://{name}"}})
        rig.cluster.create("nodeclaims", {"metadata": {"name": f"claim-{name}"}}, group=GROUP)
        status = {"nodeName": name, "providerID": f"cloud://{name}"}
        rig.cluster.patch("nodeclaims", f"claim-{name}", {"status": status}, group=GROUP, subresource="status")
    return rig


def claims(rig: NodeRig) -> list[str]:
    return [claim["metadata"]["name"] for claim in rig.cluster.all("nodeclaims", group=GROUP)]


async def look(rig: NodeRig, retire: RetireNodes) -> None:
    await rig.rounds(2)
    nodes = rig.cluster.all("nodes")
    seen = [read_node(node) for node in nodes]
    await retire.once((each, rig.records.lives.get(each.name)) for each in seen)


def test_the_claim_of_a_node_that_was_given_up_is_deleted_once() -> None:
    async def story() -> None:
        rig = rig_of("a", "b")
        retire = RetireNodes(rig.api, rig.clock, CLAIMS)
        rig.phase("b", NodePhase.LISTED)
        await look(rig, retire)
        assert claims(rig) == ["claim-a", "claim-b"]
        rig.phase("a", NodePhase.REPLACED)
        await look(rig, retire)
        await look(rig, RetireNodes(rig.api, rig.clock, CLAIMS))
        assert claims(rig) == ["claim-b"]
        assert rig.events().count("NodeClaimDeleted") == 1

    run_virtual(story())


def test_another_machine_of_the_same_name_is_not_touched() -> None:
    async def story() -> None:
        rig = rig_of("a")
        rig.phase("a", NodePhase.REPLACED)
        life = rig.records.lives["a"]
        object.__setattr__(life, "since", life.since - timedelta(hours=1))  # given up before this one was made
        await look(rig, RetireNodes(rig.api, rig.clock, CLAIMS))
        assert claims(rig) == ["claim-a"]

    run_virtual(story())


def test_without_claims_nothing_is_deleted_and_it_is_said() -> None:
    async def story() -> None:
        rig = NodeRig("a", rules=MirrorRules(share_max=1))
        rig.phase("a", NodePhase.REPLACED)
        await look(rig, RetireNodes(rig.api, rig.clock, CLAIMS))
        assert rig.events().count("NoNodeClaim") == 1
        assert rig.cluster.find("nodes", "a") is not None

    run_virtual(story())


def test_the_cap_is_kept_and_the_others_follow_later() -> None:
    async def story() -> None:
        names = [f"n{number}" for number in range(4)]
        rig = rig_of(*names)
        rules = RetireRules(how=Replacement.NODE_CLAIM, nodes_max=2, window_s=600)
        retire = RetireNodes(rig.api, rig.clock, rules)
        for name in names:
            rig.phase(name, NodePhase.REPLACED)
        await look(rig, retire)
        await look(rig, retire)
        assert len(claims(rig)) == 2
        await rig.clock.sleep(601)
        await look(rig, retire)
        assert claims(rig) == []

    run_virtual(story())


def test_killed_at_any_call_the_claim_is_deleted_in_the_end() -> None:
    async def story(call: int, *, after: bool) -> None:
        rig = rig_of("a")
        rig.phase("a", NodePhase.REPLACED)
        await rig.rounds(2)
        rig.api.calls, rig.api.kill_at, rig.api.kill_after = 0, call, after
        node = rig.cluster.get("nodes", "a")
        try:
            given = [(read_node(node), rig.records.lives["a"])]
            await RetireNodes(rig.api, rig.clock, CLAIMS).once(given)
        except Killed:
            rig.api.kill_at = None
        rig.api.kill_at = None
        await look(rig, RetireNodes(rig.api, rig.clock, CLAIMS))
        assert claims(rig) == []
        assert rig.events().count("NodeClaimDeleted") == 1

    for call in range(6):
        for after in (False, True):
            run_virtual(story(call, after=after))


class Hook:
    def __init__(self, works: Callable[[], bool]) -> None:
        self.told: list[dict[str, Any]] = []
        self._works = works

    async def replace(self, body: Mapping[str, Any]) -> None:
        if not self._works():
            raise TransientError("not now")
        self.told.append(dict(body))


def test_the_webhook_is_told_once_it_works() -> None:
    async def story() -> None:
        rig = rig_of("a")
        works = [False]
        hook = Hook(lambda: works[0])
        retire = RetireNodes(rig.api, rig.clock, RetireRules(how=Replacement.WEBHOOK), hook=hook)
        rig.phase("a", NodePhase.REPLACED)
        await look(rig, retire)
        assert hook.told == []
        works[0] = True
        await look(rig, retire)
        await look(rig, retire)
        assert [(told["node"], told["provider_id"]) for told in hook.told] == [("a", "cloud://a")]
        assert claims(rig) == ["claim-a"]

    run_virtual(story())


def test_who_waits_deletes_nothing() -> None:
    async def story() -> None:
        rig = rig_of("a")
        rig.phase("a", NodePhase.REPLACED)
        await look(rig, RetireNodes(rig.api, rig.clock, RetireRules()))
        assert claims(rig) == ["claim-a"]

    run_virtual(story())
