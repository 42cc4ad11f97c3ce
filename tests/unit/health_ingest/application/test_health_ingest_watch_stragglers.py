"""A slow rank is a condition of tier problem: raised once, cleared for a reason, never a failure, and kept."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fault_contracts.envelope import seal
from fault_contracts.health import Component, ConditionCleared, ConditionRaised, Tier
from fault_contracts.payload import Payload, Reason
from fault_contracts.recovery import JobEnded, JobOutcome
from fault_contracts.registry import Stream
from fault_contracts.step_times import RankStepTimes, StepTimesReported
from health_ingest.adapters.kv_conditions import KvConditions
from health_ingest.application.advance_condition import AdvanceCondition
from health_ingest.application.sweep_conditions import SweepConditions
from health_ingest.application.watch_stragglers import SILENT_S, SWEEP_S, WatchStragglers
from health_ingest.domain.policy import ConditionPolicy
from health_ingest.domain.straggler import StragglerPolicy
from service_kit.deadlines import Deadlines
from service_kit.errors import BusUnavailable
from service_kit.failpoints import Failpoints
from service_kit.ports import Entry
from service_kit.testing.memory_broker import MemoryBroker
from service_kit.testing.memory_bus import MemoryBus
from service_kit.testing.memory_key_value import MemoryKeyValue
from service_kit.testing.virtual_clock import LoopClock, run_virtual

SLOW, FINE = 0.06, 0.05


class Store(MemoryKeyValue):
    """Can be away."""

    away = False

    async def get(self, key: str) -> Entry | None:
        if self.away:
            raise BusUnavailable("away")
        return await super().get(key)


class Stage:
    """A broker, a store, and lives of health-ingest that watch stragglers."""

    def __init__(self) -> None:
        self.clock = LoopClock()
        self.broker = MemoryBroker(self.clock, seed=0)
        self.store = Store()
        self.desk = MemoryBus(self.broker, name="desk")
        self.tasks: dict[str, list[asyncio.Task[None]]] = {}
        self.windows = 0
        self.said = 0

    async def live(self, name: str = "ingest") -> MemoryBus:
        bus = MemoryBus(self.broker, name=name)
        policy = ConditionPolicy(tolerance_s=60)
        records, deadlines = KvConditions(self.store), Deadlines(self.clock)
        advance = AdvanceCondition(
            records=records, bus=bus, clock=self.clock, deadlines=deadlines, failpoints=Failpoints()
        )
        sweep = SweepConditions(
            advance=advance, records=records, deadlines=deadlines, clock=self.clock, policy=policy, rescan_s=300
        )
        watch = WatchStragglers(
            advance=advance, records=records, clock=self.clock, policy=StragglerPolicy(), conditions=policy
        )
        await bus.listen(messages=[StepTimesReported, JobEnded], handler=watch.heard)
        loops = (sweep.run(), sweep.rescan_forever(), watch.forever())
        self.tasks[name] = [asyncio.create_task(loop) for loop in loops]
        await self.clock.sleep(1.0)
        return bus

    async def die(self, bus: MemoryBus, name: str = "ingest") -> None:
        bus.kill()
        for task in self.tasks[name]:
            task.cancel()
        await asyncio.gather(*self.tasks[name], return_exceptions=True)

    async def say(self, payload: Payload) -> None:
        self.said += 1
        await self.desk.publish(seal(payload, source="/test", cause_id=f"{self.said}", time=self.clock.now()))
        await self.clock.sleep(2.0)

    async def window(self, rank_2_s: float, *, version: int = 1, instance: str = "life", count: int = 1) -> None:
        for _ in range(count):
            self.windows += 1
            times = [rank_2_s if rank == 2 else FINE for rank in range(4)]
            await self.say(
                StepTimesReported(
                    node_id="n0",
                    instance_id=instance,
                    job_id="job",
                    topology_version=version,
                    world_size=4,
                    window=self.windows,
                    first_step=0,
                    last_step=19,
                    duration_s=2,
                    ranks=tuple(
                        RankStepTimes(
                            rank=rank,
                            local_rank=rank,
                            count=20,
                            median_s=0.07,
                            spread_s=0.0,
                            busy_count=20,
                            busy_median_s=time_s,
                            busy_spread_s=0.0,
                        )
                        for rank, time_s in enumerate(times)
                    ),
                    reported_at=self.clock.now(),
                )
            )

    def heard(self) -> list[ConditionRaised | ConditionCleared]:
        return [each.envelope.data for each in self.broker.stored(Stream.HEALTH)]

    def kinds(self) -> list[str]:
        return [type(each).__name__ for each in self.heard()]


def story(told: Callable[[Stage], Awaitable[None]]) -> None:
    async def main() -> None:
        stage = Stage()
        try:
            await told(stage)
        finally:
            for tasks in stage.tasks.values():
                for task in tasks:
                    task.cancel()
            await stage.broker.close()

    run_virtual(main())


def test_a_straggler_is_a_problem_with_its_numbers_and_never_a_failure() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.window(SLOW, count=4)
        assert stage.heard() == []
        await stage.window(SLOW, count=1_000)
        (raised,) = stage.heard()
        assert isinstance(raised, ConditionRaised)
        assert (raised.check, raised.tier, raised.component) == ("straggler", Tier.PROBLEM, Component.PROCESS)
        assert (raised.node_id, raised.component_id, raised.job_id) == ("n0", "job/rank 2", "job")
        assert (raised.rank, raised.topology_version) == (2, 1)
        assert raised.reason == (
            "rank 2 is slow: 0.06 s of own work a step, 1.20 times the 0.05 s of its peers, in 5 of 5 windows"
        )

    story(told)


def test_it_is_cleared_by_five_good_windows_and_can_be_raised_again() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.window(SLOW, count=6)
        await stage.window(FINE, count=4)
        assert stage.kinds() == ["ConditionRaised"]
        await stage.window(FINE)
        cleared = stage.heard()[-1]
        assert isinstance(cleared, ConditionCleared)
        assert cleared.reason.startswith("rank 2 is slow no more: 0.05 s of own work a step")
        await stage.window(SLOW, count=6)
        assert stage.kinds() == ["ConditionRaised", "ConditionCleared", "ConditionRaised"]
        assert len({each.condition_id for each in stage.heard()}) == 2

    story(told)


def test_a_restarted_service_neither_raises_it_again_nor_forgets_to_clear_it() -> None:
    async def told(stage: Stage) -> None:
        await stage.die(await stage.live("first"), "first")
        bus = await stage.live("second")
        await stage.window(SLOW, count=6)
        await stage.die(bus, "second")
        await stage.live("third")
        await stage.window(SLOW, count=6)
        assert stage.kinds() == ["ConditionRaised"]
        await stage.window(FINE, count=5)
        assert stage.kinds() == ["ConditionRaised", "ConditionCleared"]

    story(told)


def test_the_end_of_the_job_or_of_the_generation_clears_it() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.window(SLOW, count=5)
        await stage.window(SLOW, version=2)
        assert stage.kinds() == ["ConditionRaised", "ConditionCleared"]
        await stage.window(SLOW, version=1)  # overtaken: changes nothing
        await stage.window(SLOW, version=2, count=4)
        assert stage.kinds()[2:] == ["ConditionRaised"]
        await stage.say(
            JobEnded(
                job_id="job",
                outcome=JobOutcome.SUCCEEDED,
                topology_version=2,
                restarts=1,
                reason=Reason(rule_id="r", sentence="s"),
                ended_at=stage.clock.now(),
            )
        )
        assert stage.kinds()[2:] == ["ConditionRaised", "ConditionCleared"]
        assert stage.heard()[-1].reason == "rank 2 was slow; job job has ended"

    story(told)


def test_a_new_run_under_an_old_name_counts_versions_anew() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.window(FINE, version=9)
        await stage.window(SLOW, version=1, instance="another life", count=5)
        assert stage.kinds() == ["ConditionRaised"]

    story(told)


def test_a_job_that_falls_silent_is_cleared_after_an_hour() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.window(SLOW, count=5)
        await stage.clock.sleep(SILENT_S - 10 * SWEEP_S)
        assert stage.kinds() == ["ConditionRaised"]
        await stage.clock.sleep(12 * SWEEP_S)
        assert stage.kinds() == ["ConditionRaised", "ConditionCleared"]

    story(told)


def test_what_the_store_does_not_take_is_told_later() -> None:
    async def told(stage: Stage) -> None:
        await stage.live()
        await stage.window(SLOW, count=4)
        stage.store.away = True
        await stage.window(SLOW, count=8)
        assert stage.heard() == []
        stage.store.away = False
        await stage.clock.sleep(2 * SWEEP_S)
        assert stage.kinds() == ["ConditionRaised"]

    story(told)


def test_two_replicas_say_it_once() -> None:
    async def told(stage: Stage) -> None:
        await stage.live("first")
        await stage.live("second")
        await stage.window(SLOW, count=8)
        await stage.window(FINE, count=8)
        assert stage.kinds() == ["ConditionRaised", "ConditionCleared"]

    story(told)
