"""The agent lets go of the GPUs while one is reset, and looks again afterwards."""

import asyncio
from collections.abc import Sequence

import pytest

from fault_contracts.health import Component
from fault_contracts.inventory import DeviceIdentity, DeviceKind
from fault_contracts.payload import Health
from node_agent.adapters.gpu_watch_gate import GpuWatchGate
from node_agent.adapters.own_watch import BoardWatch
from node_agent.application.collector_ports import Collector, CollectorFailed, Emit, EventSource
from node_agent.domain.host_board import HostBoard
from node_agent.domain.observation import Observation
from service_kit.clock import SystemClock

GPU = DeviceIdentity(kind=DeviceKind.GPU, device_id="GPU-1", pci_bus_id="0000:3b:00")


class Looks:
    """A collector and a source in one: counts."""

    interval_s = 1.0
    deadline_s = 1.0

    def __init__(self, name: str) -> None:
        self.name = name
        self.looks = self.closes = self.begins = self.ends = 0
        self.begun = asyncio.Event()

    async def collect(self) -> Sequence[Observation]:
        self.looks += 1
        return ()

    async def close(self) -> None:
        self.closes += 1

    async def run(self, emit: Emit) -> None:
        self.begins += 1
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ends += 1


def gated(*looks: Looks) -> tuple[GpuWatchGate, list[Collector], list[EventSource]]:
    gate = GpuWatchGate()
    collectors, sources = gate.wrap(list(looks), list(looks), prefix="nvml")
    return gate, collectors, sources


@pytest.mark.asyncio
async def test_what_holds_gpus_is_paused_and_the_rest_goes_on() -> None:
    nvml, disks = Looks("nvml"), Looks("host")
    gate, collectors, _ = gated(nvml, disks)
    await gate.pause()
    assert (nvml.closes, disks.closes) == (1, 0)
    with pytest.raises(CollectorFailed, match="reset"):
        await collectors[0].collect()
    await collectors[1].collect()
    gate.resume()
    await collectors[0].collect()
    assert (nvml.looks, disks.looks) == (1, 1)


@pytest.mark.asyncio
async def test_a_source_ends_while_paused_and_begins_again() -> None:
    events = Looks("nvml_events")
    gate, _, [source] = gated(events)
    running = asyncio.create_task(source.run(lambda _observation: None))
    async with asyncio.timeout(30):
        await events.begun.wait()
        await gate.pause()
        assert (events.begins, events.ends) == (1, 1)
        events.begun.clear()
        gate.resume()
        await events.begun.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (events.begins, events.ends) == (2, 2)


def seen(health: Health) -> Observation:
    at = SystemClock().now()
    return Observation(component=Component.GPU, component_id="GPU-1", check="gpu_lost", health=health, observed_at=at)


@pytest.mark.asyncio
async def test_only_looks_younger_than_the_call_are_fresh() -> None:
    board, clock = HostBoard(), SystemClock()
    watch = BoardWatch(board, GpuWatchGate(), clock)
    board.take("nvml", [seen(Health.BAD)], interval_s=30.0, now_s=clock.monotonic_s())
    assert await watch.fresh(GPU, limit_s=0.0) is None
    asking = asyncio.create_task(watch.fresh(GPU, limit_s=60.0))
    await asyncio.sleep(0)
    board.take("nvml", [seen(Health.OK)], interval_s=30.0, now_s=clock.monotonic_s() + 0.001)
    found = await asking
    assert found is not None
    assert [observation.health for observation in found] == [Health.OK]


@pytest.mark.asyncio
async def test_a_gpu_of_which_nothing_is_seen_is_not_verified() -> None:
    assert await BoardWatch(HostBoard(), GpuWatchGate(), SystemClock()).fresh(GPU, limit_s=0.0) is None
