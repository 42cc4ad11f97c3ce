"""Replicas of health-ingest as processes, a node's GPUs that tell their measures, and what is raised of them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from fault_contracts.envelope import seal
from fault_contracts.health import ConditionCleared, ConditionRaised
from fault_contracts.measures import GpuMeasures, MeasuresReported
from service_kit.jetstream.bus import JetStreamBus
from service_kit.ports import Delivery

LIMIT_S = 60.0
BETWEEN_S = 0.1
"""Between two sweeps; a replica needs a few milliseconds for one."""


@dataclass
class Replicas:
    """health-ingest, as many as wanted."""

    folder: Path
    env: dict[str, str]
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    async def start(self) -> None:
        """One more; returns when it does its work."""
        ready = self._begun()
        process = self.running[-1]
        async with asyncio.timeout(LIMIT_S):
            while not ready.exists():
                assert process.poll() is None, self.log(self.running.index(process))
                await asyncio.sleep(0.02)

    def _begun(self) -> Path:
        name = f"ingest-{len(self.running)}"
        ready = self.folder / f"{name}.ready"
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("PHALANX_", "NATS_", "REDIS_"))}
        process = subprocess.Popen(
            [sys.executable, "-m", "health_ingest.main"],
            env=clean | self.env | {"PHALANX_READY_FILE": str(ready)},
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / f"{name}.log").open("ab"),
        )
        self.running.append(process)
        return ready

    def log(self, number: int) -> str:
        return (self.folder / f"ingest-{number}.log").read_text()

    def stop(self) -> None:
        for process in self.running:
            process.terminate()
        for process in self.running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@dataclass
class Bench:
    """A node of eight GPUs, one of which can be heated, and the conditions that are said of it."""

    bus: JetStreamBus
    raised: list[ConditionRaised] = field(default_factory=list)
    cleared: list[ConditionCleared] = field(default_factory=list)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    sweep: int = 0

    def of(self, check: str) -> list[ConditionRaised]:
        return [each for each in self.raised if each.check == check]

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not holds():
                self.news.clear()
                await self.news.wait()

    async def take(self, delivery: Delivery) -> None:
        payload = delivery.envelope.data
        if isinstance(payload, ConditionRaised):
            self.raised.append(payload)
        else:
            self.cleared.append(payload)
        self.news.set()

    async def tell(self, temperature_c: float) -> None:
        """One sweep; GPU 3 has that temperature."""
        gpus = tuple(
            GpuMeasures(
                gpu_uuid=f"GPU-{index}",
                model="H100",
                temperature_c=temperature_c if index == 3 else 60.0 + index % 3,
                power_w=690.0,
                utilisation_pct=99.0,
                sm_clock_mhz=1_755.0,
            )
            for index in range(8)
        )
        now = datetime.now(UTC)
        report = MeasuresReported(node_id="n1", instance_id="i", sweep=self.sweep, gpus=gpus, measured_at=now)
        self.sweep += 1
        await self.bus.publish(seal(report, source="/test", cause_id=f"sweep/{self.sweep}", time=now))
        await asyncio.sleep(BETWEEN_S)

    async def tell_until(self, temperature_c: float, holds: Callable[[], bool]) -> None:
        """Sweeps until something holds."""
        async with asyncio.timeout(LIMIT_S):
            while not holds():
                await self.tell(temperature_c)
