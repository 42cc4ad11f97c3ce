"""What the host role says on the bus: sealed with ids that a second telling shares, and kept in the outbox.

A sweep's id comes from this life of the agent and the sweep's number. An event's comes from the boot and the number
that its source gives it (the kernel log's sequence), where it gives one: read again by the agent's next life, it is the
same message. The server drops a copy within its window (ten minutes, fault_contracts.registry); what comes later is
marked old, and health-ingest knows what to do with old ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from typing import Protocol

from fault_contracts.envelope import seal
from fault_contracts.health import SignalsObserved
from fault_contracts.inventory import DeviceIdentity, InventoryReported
from fault_contracts.payload import Health, Payload
from node_agent.application.control_ports import EventOutbox
from node_agent.domain.observation import Observation
from node_agent.domain.sweep_parts import as_signal, parts
from service_kit.ports import Clock

SEQUENCE = "seq"
"""Attribute by which a source numbers its events within one boot."""
SWEEPS_WAITING_MAX = 500
"""Sweeps that may wait in the outbox for a bus that is away (an hour of one bad row). Later ones are not queued; they
tell the past, and a whole one follows the reconnect."""
URGENT_WAITING_MAX = 5_000
"""A full outbox gives up the oldest event that is not urgent, and never an urgent one: they must be few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostIdentity:
    """Which life of which machine speaks."""

    node_id: str
    instance_id: str
    boot_id: str
    host: str
    machine_serial: str = ""
    gpus_expected: int | None = None
    started_at: datetime


class HostOutbox(EventOutbox, Protocol):
    """An outbox that says how much waits in it."""

    def __len__(self) -> int:
        """Events that the bus does not have yet."""


class HostReports:
    """Hands payloads to the outbox. Each call returns when they would survive a kill of this process."""

    def __init__(self, identity: HostIdentity, outbox: HostOutbox, clock: Clock) -> None:
        self._identity = identity
        self._outbox = outbox
        self._clock = clock
        self._sweeps = count()
        self._others = count()
        self.sweeps_left_out = 0

    async def event(self, source: str, observation: Observation) -> None:
        """One that does not wait. A bad one that is new survives a power cut as well."""
        me = self._identity
        payload = as_signal(observation, node_id=me.node_id, boot_id=me.boot_id, source=f"node-agent/{source}")
        sequence = observation.attributes.get(SEQUENCE)
        if sequence:
            cause_id, ordinal = f"{me.boot_id}/{source}", f"{sequence}/{observation.check}/{observation.component_id}"
        else:
            cause_id, ordinal = me.instance_id, f"event/{next(self._others)}"
        urgent = observation.health is Health.BAD and not observation.old and len(self._outbox) < URGENT_WAITING_MAX
        await self._put(payload, cause_id=cause_id, ordinal=ordinal, urgent=urgent)

    async def sweep(self, source: str, observations: Sequence[Observation], *, whole: bool) -> None:
        """Samples of one look, or of all. None: nothing is sent."""
        if len(self._outbox) > SWEEPS_WAITING_MAX:
            self.sweeps_left_out += 1
            return
        me = self._identity
        for samples in parts(observations):
            number = next(self._sweeps)
            payload = SignalsObserved(
                node_id=me.node_id,
                instance_id=me.instance_id,
                sweep=number,
                whole=whole,
                boot_id=me.boot_id,
                samples=samples,
                source=f"node-agent/{source}",
                observed_at=self._clock.now(),
            )
            await self._put(payload, cause_id=me.instance_id, ordinal=f"sweep/{number}")

    async def inventory(self, devices: Sequence[DeviceIdentity], *, driver_version: str) -> None:
        """What is in the node now."""
        me = self._identity
        payload = InventoryReported(
            node_id=me.node_id,
            instance_id=me.instance_id,
            host=me.host,
            boot_id=me.boot_id,
            machine_serial=me.machine_serial,
            driver_version=driver_version,
            gpus_expected=me.gpus_expected,
            devices=tuple(devices),
            reported_at=self._clock.now(),
        )
        await self._put(payload, cause_id=me.instance_id, ordinal=f"inventory/{next(self._others)}", urgent=True)

    async def events(self, told: Sequence[tuple[str, Observation]]) -> None:
        """Several at once: one write for all."""
        await asyncio.gather(*(self.event(source, observation) for source, observation in told))

    async def _put(self, payload: Payload, *, cause_id: str, ordinal: str, urgent: bool = False) -> None:
        envelope = seal(
            payload,
            source=f"node-agent/{self._identity.node_id}",
            cause_id=cause_id,
            ordinal=ordinal,
            time=self._clock.now(),
        )
        await self._outbox.put(envelope, urgent=urgent)
