"""A thermal outlier is named by one replica, against its gang or its node; windows that are lost only pause it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from peer_reports import AT, a_gpu, a_report

from fault_contracts.envelope import seal
from fault_contracts.health import Component, SignalObserved
from fault_contracts.measures import LinkKind, LinkMeasures, MeasuresReported
from fault_contracts.payload import Health, Payload
from fault_contracts.recovery import GangFormed, JobEnded
from fault_contracts.registry import Stream
from fault_contracts.step_times import StepTimesReported
from health_ingest.application.watch_peers import FRESH_S, SWEEP_S, WatchPeers
from health_ingest.domain.peer_report import PeerPolicy
from health_ingest.domain.peer_window import WindowPolicy
from service_kit.ports import Delivery
from service_kit.testing.memory_broker import MemoryBroker
from service_kit.testing.memory_bus import MemoryBus
from service_kit.testing.memory_windows import MemoryWindows
from service_kit.testing.virtual_clock import LoopClock, run_virtual


class Stage:
    """A broker, windows, and replicas that watch peers."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.broker = MemoryBroker(self.clock, seed=0)
        self.windows = MemoryWindows()
        self.desk = MemoryBus(self.broker, name="desk")
        self.watches: list[WatchPeers] = []

    async def live(self, name: str = "ingest") -> None:
        bus = MemoryBus(self.broker, name=name)
        watch = WatchPeers(windows=self.windows, bus=bus, clock=self.clock, policy=PeerPolicy(), sweeps=WindowPolicy())
        self.watches.append(watch)
        await bus.listen(messages=[MeasuresReported], handler=watch.heard, share="peers")
        await bus.listen(messages=[GangFormed, StepTimesReported, JobEnded], handler=watch.heard_of_jobs)

    async def say(self, *payloads: Payload) -> None:
        for payload in payloads:
            await self.desk.publish(seal(payload, source="/test", cause_id=repr(payload), time=AT))
            await self.clock.sleep(1.0)

    def bad(self) -> list[SignalObserved]:
        return [each for each in self.told() if each.health is Health.BAD]

    def told(self) -> list[SignalObserved]:
        return [each.envelope.data for each in self.broker.stored(Stream.HEALTH)]


def played(story: Callable[[Stage], Awaitable[None]]) -> None:
    async def whole() -> None:
        stage = Stage()
        await stage.live()
        await story(stage)
        await stage.broker.close()

    run_virtual(whole())


def gang(*nodes: str) -> GangFormed:
    return GangFormed(job_id="llama", topology_version=1, nodes=nodes, world_size=8 * len(nodes), formed_at=AT)


def test_a_hot_gpu_among_eight_is_named_in_the_third_sweep_and_cleared_after_three_good_ones() -> None:
    async def story(stage: Stage) -> None:
        await stage.say(*(a_report(sweep, temperature_c=76.0) for sweep in range(2)))
        assert stage.told() == []
        await stage.say(a_report(2, temperature_c=76.0))
        (named,) = stage.bad()
        assert (named.check, named.component, named.component_id) == (
            "gpu_temperature_outlier",
            Component.GPU,
            "GPU-n0-3",
        )
        assert named.health is Health.BAD
        assert "76 °C" in named.detail
        assert "7 peers of the same node" in named.detail
        assert named.values["median"] == 61.0
        assert named.attributes["gpu_uuid"] == "GPU-n0-3"
        await stage.say(*(a_report(sweep) for sweep in range(3, 6)))
        assert [each.health for each in stage.told() if each.component_id == "GPU-n0-3"][-1] is Health.OK

    played(story)


def test_healthy_nodes_say_no_more_than_once_that_they_are_well() -> None:
    async def story(stage: Stage) -> None:
        await stage.say(*(a_report(sweep) for sweep in range(10)))
        told = stage.told()
        assert {each.health for each in told} == {Health.OK}
        assert len(told) == 16  # temperature and clock of eight GPUs

    played(story)


def test_a_node_that_is_hot_as_a_whole_is_seen_against_its_gang_only() -> None:
    hot = tuple(a_gpu("n3", index, temperature_c=77.0 + index % 3) for index in range(8))

    async def story(stage: Stage) -> None:
        await stage.say(*(a_report(sweep, node_id="n3", gpus=hot) for sweep in range(3)))
        assert stage.bad() == []
        await stage.say(gang("n1", "n2", "n3"))
        for sweep in range(3, 8):
            await stage.say(a_report(sweep, node_id="n1"), a_report(sweep, node_id="n2"))
            await stage.say(a_report(sweep, node_id="n3", gpus=hot))
        bad = stage.bad()
        assert {each.node_id for each in bad} == {"n3"}
        assert {each.job_id for each in bad} == {"llama"}
        assert "peers of job llama" in bad[-1].detail

    played(story)


def test_reports_of_nodes_that_fell_silent_are_no_peers() -> None:
    async def story(stage: Stage) -> None:
        few = (a_gpu("n0", 0, temperature_c=90.0), a_gpu("n0", 1))
        await stage.say(gang("n0", "n1"), a_report(0, node_id="n1"))
        await stage.clock.sleep(FRESH_S)
        await stage.say(*(a_report(sweep, gpus=few) for sweep in range(4)))
        assert stage.told() == []

    played(story)


def test_two_replicas_share_the_reports_and_the_windows() -> None:
    async def story(stage: Stage) -> None:
        await stage.live("second")
        for sweep in range(3):
            await stage.say(a_report(sweep, temperature_c=76.0))
        assert len(stage.bad()) == 1

    played(story)


def test_without_windows_nothing_is_judged_and_lost_ones_fill_again() -> None:
    async def story(stage: Stage) -> None:
        await stage.say(*(a_report(sweep, temperature_c=76.0) for sweep in range(3)))
        stage.windows.away = True
        await stage.say(*(a_report(sweep, temperature_c=76.0) for sweep in range(3, 6)))
        assert len(stage.told()) == 1 + 15  # the named one, and the others are well, said once
        stage.windows.away = False
        stage.windows.lose()
        before = len(stage.told())
        await stage.say(*(a_report(sweep) for sweep in range(6, 9)))
        after = stage.told()[before:]
        assert [each.health for each in after if each.component_id == "GPU-n0-3"] == [Health.OK, Health.OK]

    played(story)


def test_what_the_bus_does_not_take_is_told_later() -> None:
    async def story(stage: Stage) -> None:
        (watch,) = stage.watches
        await stage.say(*(a_report(sweep, temperature_c=76.0) for sweep in range(2)))
        last = seal(a_report(2, temperature_c=76.0), source="/test", cause_id="last", time=AT)
        stage.broker.partitioned.add("ingest")
        await watch.heard(Delivery(envelope=last, subject="s", stream_sequence=None, deliveries=1))
        assert stage.told() == []
        stage.broker.partitioned.clear()
        task = asyncio.create_task(watch.forever())
        await stage.clock.sleep(SWEEP_S + 1)
        task.cancel()
        assert len(stage.bad()) == 1

    played(story)


def test_a_slow_link_of_a_nic_is_named_as_a_nic() -> None:
    def links(slow: float) -> tuple[LinkMeasures, ...]:
        rates = [slow, 400.0, 400.0, 400.0]
        return tuple(
            LinkMeasures(kind=LinkKind.NIC, component_id=f"mlx5_{n}", model="cx7", rate_gbps=rate)
            for n, rate in enumerate(rates)
        )

    async def story(stage: Stage) -> None:
        for sweep in range(3):
            at = AT + timedelta(seconds=30 * sweep)
            await stage.say(
                MeasuresReported(node_id="n", instance_id="i", sweep=sweep, links=links(200.0), measured_at=at)
            )
        (bad,) = stage.bad()
        assert (bad.check, bad.component, bad.component_id) == ("link_slow", Component.NIC, "mlx5_0")

    played(story)
