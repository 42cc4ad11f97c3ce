"""A host role in memory: collectors and sources that do what the test says, an outbox that keeps what it gets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from fault_contracts.envelope import Envelope, open_envelope
from fault_contracts.health import Component, SignalObserved, SignalsObserved
from fault_contracts.inventory import InventoryReported
from fault_contracts.payload import Health
from node_agent.application.collector_ports import Emit
from node_agent.application.host_life import HostLife, HostPolicy
from node_agent.application.host_reports import HostIdentity, HostReports
from node_agent.domain.device_directory import Directory
from node_agent.domain.observation import Observation
from service_kit.testing.virtual_clock import EPOCH, LoopClock

IDENTITY = HostIdentity(
    node_id="n1", instance_id="life-1", boot_id="boot-1", host="h", gpus_expected=8, started_at=EPOCH
)


def seen(check: str, health: Health = Health.OK, **attributes: str) -> Observation:
    """One observation of a GPU."""
    return Observation(
        component=Component.GPU,
        component_id="GPU-1",
        check=check,
        health=health,
        attributes=attributes,
        observed_at=EPOCH,
    )


class MemoryOutbox:
    """application.host_reports.HostOutbox; every event goes through its bytes."""

    def __init__(self) -> None:
        self.told: list[tuple[Envelope[Any], bool]] = []
        self.waiting = 0

    def __len__(self) -> int:
        return self.waiting

    async def put(self, envelope: Envelope[Any], *, urgent: bool = False) -> None:
        """See the port."""
        self.told.append((open_envelope(envelope.to_bytes()), urgent))

    def of(self, model: type) -> list[Any]:
        """Payloads of one kind, in order."""
        return [envelope.data for envelope, _ in self.told if isinstance(envelope.data, model)]

    @property
    def sweeps(self) -> list[SignalsObserved]:
        """What was told of looks."""
        return self.of(SignalsObserved)

    @property
    def events(self) -> list[SignalObserved]:
        """What did not wait."""
        return self.of(SignalObserved)

    @property
    def inventories(self) -> list[InventoryReported]:
        """Which devices were told."""
        return self.of(InventoryReported)


class ScriptedCollector:
    """application.collector_ports.Collector. `script`: what each look gives; the last one repeats."""

    def __init__(self, name: str, *script: Sequence[Observation] | Exception | float, interval_s: float = 10.0) -> None:
        self.name = name
        self.interval_s = interval_s
        self.deadline_s = 5.0
        self.script = list(script)
        self.begun_s: list[float] = []
        self.closed = False

    async def collect(self) -> Sequence[Observation]:
        """A number in the script is a look that takes so long; it swallows its cancellation, as a stuck one does."""
        self.begun_s.append(asyncio.get_running_loop().time())
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Exception):
            raise step
        if isinstance(step, float | int):
            until_s = asyncio.get_running_loop().time() + step
            while (left_s := until_s - asyncio.get_running_loop().time()) > 0:
                try:
                    await asyncio.sleep(left_s)
                except asyncio.CancelledError:
                    continue
            return ()
        return step

    async def close(self) -> None:
        """See the port."""
        self.closed = True


class ScriptedSource:
    """application.collector_ports.EventSource. `script`: a failure, None to end, or events to emit before it waits."""

    def __init__(self, name: str, *script: Exception | Sequence[Observation] | None) -> None:
        self.name = name
        self.script = list(script)
        self.runs_s: list[float] = []
        self.emit: Emit | None = None

    async def run(self, emit: Emit) -> None:
        """See the port."""
        self.emit = emit
        self.runs_s.append(asyncio.get_running_loop().time())
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Exception):
            raise step
        if step is None:
            return
        for observation in step:
            emit(observation)
        await asyncio.get_running_loop().create_future()


class Host:
    """A life with its outbox, run for a while on virtual time."""

    def __init__(
        self, *collectors: ScriptedCollector, sources: Sequence[ScriptedSource] = (), sweep_s: float = 10.0
    ) -> None:
        self.outbox = MemoryOutbox()
        self.directory = Directory()
        self.clock = LoopClock()
        self.life = HostLife(
            IDENTITY,
            HostReports(IDENTITY, self.outbox, self.clock),
            self.directory,
            self.clock,
            collectors=collectors,
            sources=sources,
            policy=HostPolicy(sweep_s=sweep_s, whole_s=600.0),
            driver_version=lambda: "",
        )

    async def __aenter__(self) -> Host:
        self._running = asyncio.create_task(self.life.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._running.cancel()
        await asyncio.gather(self._running, return_exceptions=True)

    def rows(self) -> dict[str, Observation]:
        """The table by check."""
        return {row.observation.check: row.observation for row in self.life.board.table()}
