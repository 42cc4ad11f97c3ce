"""The fake makes trouble as a network does, the same for the same seed, and loses nothing that it promised to keep."""

import asyncio

import pytest

from fault_contracts.agent import AgentHeartbeat, StepReported
from fault_contracts.commands import StopWorkers
from fault_contracts.registry import Stream
from service_kit.errors import BusUnavailable
from service_kit.ports import Delivery
from service_kit.testing.memory_broker import ACK_WAIT_S, MemoryBroker, Trouble
from service_kit.testing.memory_bus import MemoryBus
from service_kit.testing.messages import a_heartbeat, a_step, a_stop, an_epoch
from service_kit.testing.virtual_clock import LoopClock, VirtualClock, run_virtual

BAD_NETWORK = Trouble(publish_lost=0.2, dropped=0.2, duplicated=0.2, delay_s_max=0.5, reordered=0.2)


async def _publish_until_stored(bus: MemoryBus, step: int) -> None:
    for _ in range(50):
        try:
            await bus.publish(a_step(step))
        except BusUnavailable:
            continue
        return
    raise AssertionError("never stored")


def _story(seed: int) -> tuple[list[int], list[int], int]:
    async def main() -> tuple[list[int], list[int], int]:
        broker = MemoryBroker(LoopClock(), seed=seed, trouble=BAD_NETWORK)
        bus = MemoryBus(broker)
        steps: list[int] = []
        beats: list[int] = []

        async def on_step(delivery: Delivery) -> None:
            steps.append(delivery.envelope.data.step)

        async def on_beat(delivery: Delivery) -> None:
            beats.append(delivery.envelope.data.step)

        await bus.consume(durable="reader", messages=[StepReported], handler=on_step)
        await bus.listen(messages=[AgentHeartbeat], handler=on_beat)
        for number in range(60):
            await _publish_until_stored(bus, number)
            await bus.publish(a_heartbeat(number))
        await asyncio.sleep(20 * ACK_WAIT_S)
        stored = len(broker.stored(Stream.AGENTS))
        await broker.close()
        return steps, beats, stored

    return run_virtual(main())


@pytest.mark.parametrize("seed", range(5))
def test_stored_messages_all_arrive_and_the_trouble_is_real(seed: int) -> None:
    steps, beats, stored = _story(seed)
    assert stored == 60, "a publish that was repeated must be stored once"
    assert set(steps) == set(range(60))
    assert len(steps) > 60, "nothing came twice"
    assert steps != sorted(steps), "nothing came out of order"
    assert 20 < len(set(beats)) < 60, "nothing was lost, or everything"
    assert beats != sorted(beats)


def test_the_same_seed_tells_the_same_story_and_another_one_another() -> None:
    assert _story(1) == _story(1)
    assert _story(1) != _story(2)


@pytest.mark.asyncio
async def test_a_killed_reader_finds_its_message_again_after_ack_wait() -> None:
    clock = VirtualClock()
    broker = MemoryBroker(clock)
    first, second = MemoryBus(broker, name="first"), MemoryBus(broker, name="second")
    taken, again = [], []

    async def dies(delivery: Delivery) -> None:
        taken.append(delivery.envelope.data.step)
        await asyncio.get_running_loop().create_future()

    async def handle(delivery: Delivery) -> None:
        again.append((delivery.envelope.data.step, delivery.deliveries))

    await first.consume(durable="reader", messages=[StepReported], handler=dies)
    await MemoryBus(broker, name="sender").publish(a_step(1))
    await clock.run_until_idle()
    first.kill()
    await second.consume(durable="reader", messages=[StepReported], handler=handle)
    await clock.advance(ACK_WAIT_S - 1)
    assert (taken, again) == ([1], [])
    await clock.advance(2)
    assert again == [(1, 2)]
    await broker.close()


@pytest.mark.asyncio
async def test_a_reader_that_reclaims_has_what_the_killed_one_held_at_once_and_only_once() -> None:
    clock = VirtualClock()
    broker = MemoryBroker(clock)
    first, second = MemoryBus(broker, name="first"), MemoryBus(broker, name="second")
    again = []

    async def dies(_delivery: Delivery) -> None:
        await asyncio.get_running_loop().create_future()

    async def handle(delivery: Delivery) -> None:
        again.append((delivery.envelope.data.step, delivery.deliveries))

    await first.consume(durable="reader", messages=[StepReported], handler=dies)
    await MemoryBus(broker, name="sender").publish(a_step(1))
    await clock.run_until_idle()
    first.kill()
    await second.consume(durable="reader", messages=[StepReported], handler=handle, reclaim=True)
    await clock.run_until_idle()
    assert again == [(1, 1)], "at once; the count begins anew, as on the real server"
    await clock.advance(ACK_WAIT_S + 1)
    assert again == [(1, 1)]
    await broker.close()


@pytest.mark.asyncio
async def test_a_message_id_counts_for_ten_minutes() -> None:
    clock = VirtualClock()
    bus = MemoryBus(MemoryBroker(clock))
    assert await bus.publish(a_step(1)) == 1
    await clock.advance(599)
    assert await bus.publish(a_step(1)) == 1
    await clock.advance(2)
    assert await bus.publish(a_step(1)) == 2


@pytest.mark.asyncio
async def test_a_partitioned_bus_reaches_nobody_and_catches_up_after() -> None:
    clock = VirtualClock()
    broker = MemoryBroker(clock)
    bus, sender = MemoryBus(broker, name="cut-off"), MemoryBus(broker, name="sender")
    seen: list[int] = []
    heard: list[str] = []

    async def on_step(delivery: Delivery) -> None:
        seen.append(delivery.envelope.data.step)

    async def on_stop(delivery: Delivery) -> None:
        heard.append(delivery.envelope.data.operation_id)

    async def reply(body: bytes) -> bytes:
        return b"here"

    await bus.consume(durable="reader", messages=[StepReported], handler=on_step)
    await bus.listen(messages=[StopWorkers], handler=on_stop)
    await bus.answer(what="ping", key="node-0", reply=reply)
    broker.partitioned.add("cut-off")
    epoch = await sender.take_epoch(an_epoch())
    await sender.publish(a_step(1))
    await sender.publish(a_stop(epoch, 1), epoch=epoch)
    with pytest.raises(BusUnavailable):
        await bus.publish(a_step(2))
    asking = asyncio.create_task(sender.ask(what="ping", key="node-0", timeout_s=2.0))
    await clock.advance(3)
    with pytest.raises(BusUnavailable, match="no reply"):
        await asking
    assert seen == []
    broker.heal()
    await clock.run_until_idle()
    assert seen == [1]
    assert heard == [], "a plain subscription hears nothing of what it missed"
    assert [d.stream_sequence for d in await bus.last_commands(key="job", messages=[StopWorkers])] == [2]
    await broker.close()


def test_a_reader_that_is_killed_on_its_way_to_the_server_takes_nothing_from_the_next_one() -> None:
    async def main() -> list[int]:
        broker = MemoryBroker(LoopClock(), seed=1, trouble=Trouble(delay_s_max=0.05))
        dying, living = MemoryBus(broker, name="dying"), MemoryBus(broker, name="living")
        taken: list[int] = []

        async def take(delivery: Delivery) -> None:
            taken.append(delivery.envelope.data.step)

        asking = asyncio.create_task(dying.consume(durable="reader", messages=[StepReported], handler=take))
        await asyncio.sleep(0)  # its request is under way
        dying.kill()
        await asyncio.sleep(1)
        asking.cancel()
        await living.consume(durable="reader", messages=[StepReported], handler=take)
        for step in range(6):
            await living.publish(a_step(step))
        await asyncio.sleep(ACK_WAIT_S / 2)  # what a ghost had taken would come again after ack wait only
        await broker.close()
        return taken

    assert run_virtual(main()) == list(range(6))
