"""The mirror of nodes on a cluster: repair, drain, drills with a server that fails, and death between any two calls."""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest
from kube_call import Rule, Trouble
from node_rig import NodeRig

from fault_contracts.remediation import NodePhase
from recovery_planner.application.forward_conditions import ForwardConditions
from recovery_planner.application.kube_ports import KubeForbidden, KubeUnavailable
from recovery_planner.domain.kube_node_seen import NOT_VALIDATED, UNHEALTHY, read_node
from recovery_planner.domain.kube_nodes import MirrorRules
from service_kit.errors import TransientError
from service_kit.testing.virtual_clock import run_virtual

LABELS = {"app": "x"}
LIMIT = {
    "metadata": {"name": "limit"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": LABELS}},
}
ROLE = [
    Rule(resources=("nodes", "pods"), verbs=("get", "list", "watch")),
    Rule(resources=("nodes",), verbs=("patch",)),
    Rule(resources=("nodes/status",), verbs=("patch",)),
    Rule(resources=("pods/eviction", "events"), verbs=("create",)),
]


def story(run: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test on virtual time."""

    def test() -> None:
        run_virtual(run())

    test.__name__ = run.__name__
    return test


@story
async def test_a_node_is_repaired_and_comes_back() -> None:
    rig = NodeRig("a", "b")
    rig.pod("left-over", "a")
    rig.pod("elsewhere", "b")
    await rig.rounds()
    assert rig.condition("a", "PhalanxGPUUnhealthy")["reason"] == "NoProblem"
    assert rig.condition("a", "Ready")["status"] == "True"  # theirs is still there
    rig.phase("a", NodePhase.DRAINING)
    await rig.rounds(2)
    assert rig.keys("a") == {UNHEALTHY}
    assert rig.node("a")["spec"]["unschedulable"] is True
    assert rig.cluster.get("pods", "left-over", namespace="default")["metadata"].get("deletionTimestamp") is None
    rig.phase("a", NodePhase.REMEDIATING)
    await rig.rounds(2)
    assert rig.cluster.get("pods", "left-over", namespace="default")["metadata"]["deletionTimestamp"]
    assert not rig.cluster.get("pods", "elsewhere", namespace="default")["metadata"].get("deletionTimestamp")
    rig.phase("a", NodePhase.PROBATION, "gate.passed")
    await rig.rounds(2)
    assert rig.keys("a") == set()
    assert not rig.node("a")["spec"].get("unschedulable")
    assert sorted(rig.events()) == ["Cordoned", "Uncordoned"]


@story
async def test_a_round_in_which_nothing_changed_writes_nothing() -> None:
    rig = NodeRig("a", "b")
    await rig.rounds()
    before = rig.cluster.version
    await rig.rounds(3)
    assert rig.cluster.version == before


@story
async def test_a_node_that_phalanx_does_not_know_is_left_alone() -> None:
    rig = NodeRig("a")
    rig.players.add_node("stranger")
    before = rig.node("stranger")
    await rig.rounds(2)
    assert rig.node("stranger") == before


@story
async def test_a_budget_is_respected_and_the_limit_is_said() -> None:
    rig = NodeRig("a", rules=MirrorRules(drain_s=60))
    rig.pod("kept", "a", labels=LABELS)
    rig.cluster.create("poddisruptionbudgets", LIMIT, namespace="default", group="policy")
    rig.phase("a", NodePhase.REMEDIATING)
    await rig.rounds(2)
    await asyncio.sleep(70)
    await rig.rounds(2)
    said = rig.condition("a", "PhalanxInRemediation")
    assert said["reason"] == "DrainTimedOut"
    assert "default/kept" in said["message"]
    assert "deletionTimestamp" not in rig.cluster.get("pods", "kept", namespace="default")["metadata"]
    evictions = sum(call.verb == "evict" for call in rig.cluster.calls)
    await rig.rounds(3)
    assert sum(call.verb == "evict" for call in rig.cluster.calls) == evictions  # it does not go on asking
    assert rig.events().count("DrainTimedOut") == 1


@story
async def test_a_new_node_goes_through_the_gate() -> None:
    rig = NodeRig("a")
    rig.players.add_node("new", taints=[{"key": NOT_VALIDATED, "effect": "NoSchedule"}])
    await rig.mirror.once()
    await rig.mirror.once()
    asked = [(question["verb"], question["node_id"]) for question in rig.planner.questions]
    assert asked == [("quarantine", "new"), ("release", "new")]  # once, however often it looks
    rig.phase("new", NodePhase.VALIDATING)
    await rig.rounds()
    assert rig.keys("new") == {NOT_VALIDATED, UNHEALTHY}
    rig.phase("new", NodePhase.PROBATION, "gate.passed")
    await rig.rounds(2)
    assert rig.keys("new") == set()
    assert "Validated" in rig.events()


@story
async def test_killed_at_any_call_the_next_life_does_the_rest() -> None:
    for after in (False, True):
        call = 0
        while True:
            rig = NodeRig("a", "b", rules=MirrorRules(share_max=1))
            rig.pod("left-over", "a")
            rig.phase("a", NodePhase.REMEDIATING)
            rig.phase("b", NodePhase.QUARANTINED)
            died = await rig.killed_at(call, after=after)
            await rig.rounds(2)
            where = f"call {call}, after={after}"
            assert (rig.keys("a"), rig.keys("b")) == ({UNHEALTHY}, {UNHEALTHY}), where
            assert rig.cluster.get("pods", "left-over", namespace="default")["metadata"]["deletionTimestamp"], where
            assert rig.condition("a", "PhalanxInRemediation")["reason"] == "Remediating", where
            assert sorted(rig.events()) == ["Cordoned", "Cordoned"], where  # none lost, none told twice
            if not died:
                break
            call += 1
        assert call > 6


@story
async def test_a_change_by_somebody_else_in_between_is_read_again() -> None:
    rig = NodeRig("a")
    rig.phase("a", NodePhase.QUARANTINED)
    rig.cluster.troubles.append(Trouble(status=409, verb="patch", resource="nodes"))
    await rig.rounds()
    assert rig.keys("a") == set()
    rig.players.taint("a", "theirs")
    await rig.rounds()
    assert rig.keys("a") == {UNHEALTHY, "theirs"}


@story
async def test_one_node_that_is_refused_does_not_hold_up_the_others() -> None:
    rig = NodeRig("a", "b", rules=MirrorRules(share_max=1))
    for name in ("a", "b"):
        rig.phase(name, NodePhase.QUARANTINED)
    rig.cluster.troubles.append(Trouble(status=500, verb="patch", resource="nodes"))
    with pytest.raises(KubeUnavailable):
        await rig.rounds()
    assert {frozenset(rig.keys("a")), frozenset(rig.keys("b"))} == {frozenset(), frozenset({UNHEALTHY})}


@story
async def test_a_server_that_is_down_for_a_minute_is_waited_for() -> None:
    rig = NodeRig("a")
    rig.phase("a", NodePhase.QUARANTINED)
    rig.api.down = True
    running = asyncio.ensure_future(rig.mirror.run())
    await asyncio.sleep(60)
    assert rig.api.calls < 6  # no hot loop
    rig.api.down = False
    await asyncio.sleep(120)
    assert rig.keys("a") == {UNHEALTHY}
    running.cancel()


@story
async def test_throttling_is_obeyed() -> None:
    rig = NodeRig("a")
    rig.cluster.troubles.append(Trouble(status=429, times=1, retry_after_s=45))
    running = asyncio.ensure_future(rig.mirror.run())
    await asyncio.sleep(40)
    assert rig.api.calls == 1
    await asyncio.sleep(30)
    assert rig.api.calls > 1
    running.cancel()


@story
async def test_the_role_is_enough_and_without_it_there_is_one_clear_word() -> None:
    rig = NodeRig("a")
    rig.pod("p", "a")
    rig.cluster.rules["phalanx-operator"] = ROLE
    rig.phase("a", NodePhase.REMEDIATING)
    await rig.rounds(2)
    assert rig.keys("a") == {UNHEALTHY}
    rig.cluster.rules["phalanx-operator"] = ROLE[:1]
    rig.ok("a")
    with pytest.raises(KubeForbidden, match=re.escape('resource "events"')):
        await rig.rounds()


@story
async def test_five_hundred_nodes_and_a_wrong_standing_of_all() -> None:
    names = [f"n{number:03}" for number in range(500)]
    rig = NodeRig(*names, rules=MirrorRules(share_max=0.1))
    for name in names:
        rig.phase(name, NodePhase.QUARANTINED)
    await rig.rounds()
    out = [name for name in names if rig.keys(name)]
    assert out == names[:50]
    assert rig.events().count("BlastRadiusReached") == 450


class Door:
    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.closed = False

    async def tell(self, body: Mapping[str, Any]) -> None:
        if self.closed:
            raise TransientError("not now")
        self.told.append(dict(body))


@story
async def test_what_others_say_of_a_node_is_forwarded_when_it_changes() -> None:
    rig = NodeRig("a", "b")
    door = Door()
    forward = ForwardConditions(door, rig.clock)

    async def look() -> list[tuple[str, set[str]]]:
        door.told.clear()
        await forward.once(read_node(node) for node in rig.cluster.all("nodes"))
        return [(body["nodeName"], {each["type"] for each in body["conditions"]}) for body in door.told]

    await rig.rounds()  # our own conditions are there, and are not sent
    assert await look() == [("a", {"Ready"}), ("b", {"Ready"})]
    assert await look() == []
    deadlock = {"type": "KernelDeadlock", "status": "True", "reason": "AUFSUmountHung", "message": "blocked"}
    rig.cluster.patch("nodes", "b", {"status": {"conditions": [deadlock]}}, subresource="status")
    door.closed = True
    assert await look() == []
    door.closed = False
    assert await look() == [("b", {"Ready", "KernelDeadlock"})]
    await asyncio.sleep(601)
    assert len(await look()) == 2
