"""A switch fails: whole planners on virtual time restart the job, and neither give its node up nor repair it."""

from collections.abc import Awaitable, Callable

import pytest
from planner_rig import Rig
from tending_rig import LADDER, Hosts, blames, life_of

from fault_contracts.faults import Action
from fault_contracts.health import Component, ConditionRaised, Tier
from fault_contracts.recovery import CauseLinked
from fault_contracts.registry import Stream
from service_kit.testing.memory_bus import MemoryBus
from service_kit.testing.virtual_clock import run_virtual


def played(story: Callable[[Rig], Awaitable[None]]) -> None:
    async def main() -> None:
        rig = Rig(cluster_policy=LADDER, judge=False)
        await story(rig)
        assert rig.broken_promises == []
        await rig.end()

    run_virtual(main())


async def loses_its_link(rig: Rig, node_id: str) -> None:
    raised = ConditionRaised(
        condition_id=f"nic_link of {node_id}", node_id=node_id, component=Component.NIC, component_id="mlx5_0",
        check="nic_link", tier=Tier.FAILURE, reason="the port is down", raised_at=rig.clock.now(),
    )  # fmt: skip
    await rig.publish(MemoryBus(rig.broker, name=f"ingest-{node_id}"), raised, cause=node_id, ordinal=1)


def links_told(rig: Rig) -> list[CauseLinked]:
    payloads = [stored.envelope.data for stored in rig.broker.stored(Stream.JOURNAL)]
    return [payload for payload in payloads if isinstance(payload, CauseLinked)]


@pytest.mark.parametrize("others", [("x", "y"), ("x",), ()])
def test_a_blamed_node_keeps_its_place_only_when_others_have_the_same_trouble(others: tuple[str, ...]) -> None:
    async def story(rig: Rig) -> None:
        hosts = await Hosts(rig).begin()
        await rig.begin("a", "b", "s")
        await rig.until_running(1)
        for node_id in others:
            await loses_its_link(rig, node_id)
        await rig.clock.sleep(1)
        await blames(rig, "b", Action.REPLACE_NODE, cause="nic_fault")
        gang = await rig.until_running(2)
        await rig.clock.sleep(60)
        if len(others) == 2:
            assert gang.nodes == ("a", "b")
            assert await life_of(rig, "b") is None, "nothing is repaired"
            assert hosts.actions("b") == []
            [told] = links_told(rig)
            assert (told.family, told.nodes) == ("network", ("b", "x", "y"))
        else:
            assert gang.nodes == ("a", "s")
            assert await life_of(rig, "b") is not None
            assert links_told(rig) == []

    played(story)
