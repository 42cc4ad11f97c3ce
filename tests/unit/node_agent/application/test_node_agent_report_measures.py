"""Measures go out sweep by sweep, never from a machine that has none, and a bus that is away costs a sweep."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from fault_contracts.health import Component
from fault_contracts.payload import Health
from node_agent.application.host_reports import HostIdentity
from node_agent.application.report_measures import MeasuresReports
from node_agent.domain.observation import Observation
from service_kit.errors import BusUnavailable
from service_kit.testing.virtual_clock import LoopClock, run_virtual

AT = datetime(2026, 3, 14, tzinfo=UTC)
IDENTITY = HostIdentity(node_id="n0", instance_id="i", boot_id="b", host="h", started_at=AT)
ROW = Observation(
    component=Component.GPU,
    component_id="GPU-0",
    check="gpu_temperature",
    health=Health.OK,
    values={"temperature_c": 61.0},
    observed_at=AT,
)


class FakeBus:
    """Keeps what is published; can be away."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.away = False

    async def publish(self, envelope: Any, *, epoch: int | None = None) -> int:
        if self.away:
            raise BusUnavailable("away")
        self.sent.append(envelope)
        return 0


def test_each_sweep_is_told_once_and_a_lost_one_leaves_a_gap() -> None:
    async def story() -> None:
        bus, clock = FakeBus(), LoopClock()
        reports = MeasuresReports(IDENTITY, bus, clock, lambda: (ROW,), sweep_s=30.0)  # type: ignore[arg-type]
        task = asyncio.create_task(reports.run())
        await clock.sleep(31)
        bus.away = True
        await clock.sleep(30)
        bus.away = False
        await clock.sleep(30)
        task.cancel()
        assert [sent.data.sweep for sent in bus.sent] == [0, 2]
        assert bus.sent[0].data.gpus[0].temperature_c == 61.0
        assert len({sent.id for sent in bus.sent}) == 2

    run_virtual(story())


def test_a_machine_without_devices_says_nothing() -> None:
    async def story() -> None:
        bus = FakeBus()
        await MeasuresReports(IDENTITY, bus, LoopClock(), tuple, sweep_s=30.0).tell()  # type: ignore[arg-type]
        assert bus.sent == []

    run_virtual(story())
