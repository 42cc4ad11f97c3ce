"""Listeners that share a name take turns, on the fake and on a real nats-server."""

import pytest
from test_service_kit_bus import Seen, World, until
from test_service_kit_bus import world as world  # the fixture

from fault_contracts.agent import AgentHeartbeat
from service_kit.testing.messages import a_heartbeat

pytestmark = pytest.mark.asyncio


async def test_of_those_that_share_a_name_one_hears_each_message(world: World) -> None:
    one, two, all_of_them = Seen(), Seen(), Seen()
    await world.bus.listen(messages=[AgentHeartbeat], handler=one, share="readers")
    await (await world.another()).listen(messages=[AgentHeartbeat], handler=two, share="readers")
    await world.bus.listen(messages=[AgentHeartbeat], handler=all_of_them)
    for number in range(20):
        await world.bus.publish(a_heartbeat(number))
    await until(lambda: len(all_of_them.steps) == 20 and len(one.steps + two.steps) >= 20)
    assert sorted(one.steps + two.steps) == list(range(20))
