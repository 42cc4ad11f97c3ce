"""A job under a drill: that of the random-fault test, with servers, services and nodes on machines of their own."""

import asyncio
import contextlib
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from chaos_rig import CLUSTER, JOB, RECOVERY_LIMIT_S, Rig
from drill_net import Net
from drill_servers import Servers, fake_time

from fault_contracts.agent import CheckpointReported
from fault_contracts.envelope import seal
from fault_contracts.health import Component, Health, SignalObserved
from fault_contracts.payload import Payload
from fault_contracts.recovery import RecoveryPlanned
from fault_contracts.registry import spec_of
from phalanx_cli.journal.read import read_journal
from phalanx_cli.journal.record import RunTale
from service_kit.clock import SystemClock
from service_kit.delivery import decode
from service_kit.errors import BusUnavailable
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.direct_get import every_stored
from service_kit.ports import Bus
from service_kit.settings import BusSettings

P = TypeVar("P", bound=Payload)

PROBE_NODE = "probe"
PROBE_EVERY_S = 0.1
DELIVERED_LIMIT_S = 60.0
"""An agent's outbox is empty by then, also over a slow link."""


@dataclass(slots=True)
class Probe:
    """Publishes healthy signals of a node that nobody knows, one after another, and keeps what the bus acknowledged.

    One that was not acknowledged is repeated with the same id, as every sender of ours does.
    """

    acked: list[str] = field(default_factory=list)
    longest_s: float = 0.0
    """From the first try to the acknowledgement."""
    _task: asyncio.Task[None] | None = None

    async def publish(self, bus: Bus) -> None:
        """Until cancelled."""
        clock, number = SystemClock(), 0
        while True:
            signal = SignalObserved(
                node_id=PROBE_NODE,
                component=Component.HOST,
                check="probe",
                health=Health.OK,
                source="drill",
                observed_at=clock.now(),
            )
            envelope = seal(signal, source="drill", cause_id="drill", ordinal=number, time=clock.now())
            begun_s = clock.monotonic_s()
            while True:
                try:
                    await bus.publish(envelope)
                    break
                except BusUnavailable:
                    await clock.sleep(PROBE_EVERY_S)  # the promise is about what is acknowledged in the end
            self.longest_s = max(self.longest_s, clock.monotonic_s() - begun_s)
            self.acked.append(envelope.id)
            number += 1
            await clock.sleep(PROBE_EVERY_S)


class DrillRig(Rig):
    """Two nodes and a spare, `nats_servers` servers and `replicas` of each service, all on one bridge."""

    def __init__(
        self, folder: Path, *, nats_servers: int = 1, replicas: int = 1, disk_mib: int = 0, clocks: bool = False
    ) -> None:
        super().__init__(folder, block=False)
        self.net = Net()
        self.probe = Probe()
        self._sizes = (nats_servers, replicas, disk_mib)
        self._clocks = clocks

    async def _enter_servers(self, exits: AsyncExitStack) -> str:
        exits.enter_context(self.net)
        nats_servers, replicas, disk_mib = self._sizes
        folder = self.folder / "servers"
        self.servers = Servers(
            self.net, folder, cluster=CLUSTER, nats_servers=nats_servers, replicas=replicas, clocks=self._clocks
        )
        exits.callback(self.servers.stop)
        if disk_mib:
            self.servers.small_disk(mib=disk_mib)
        await self.servers.start()
        settings = BusSettings(nats_url=self.servers.nats_url, cluster=CLUSTER)
        connection = await connect(settings, name="probe")
        exits.push_async_callback(connection.close)
        probing = asyncio.create_task(self.probe.publish(JetStreamBus(connection, cluster=CLUSTER)))
        exits.push_async_callback(_cancelled, probing)
        return self.servers.nats_url

    def _around(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...], dict[str, str]]:
        address = self.net.add(name)
        env = {"GLOO_SOCKET_IFNAME": "eth0"}
        if self._clocks:
            env |= fake_time(self.clock_of(name))
        return self.net.on(name), ("--local-addr", address), env

    def clock_of(self, name: str) -> Path:
        """The file that moves the wall clock of a node and its ranks."""
        return self.folder / "nodes" / f"{name}.time"

    def holder(self, rank: int) -> str:
        """The node that a rank runs on."""
        return str(self.story.holder(rank)[0])

    def steps_done(self) -> int:
        """The furthest step of any rank of the newest generation."""
        return max(self.ledger.steps[self.ledger.version].values(), default=0)

    async def recovered(self, what: str, limit_s: float = RECOVERY_LIMIT_S) -> None:
        """Wait until a newer generation than this one trains."""
        version = self.ledger.version
        await self.until(what, limit_s, None, lambda: self.ledger.version > version and self.trains)

    async def trains_on(self, what: str, *, steps: int, limit_s: float = RECOVERY_LIMIT_S) -> None:
        """Wait until the generation that trains has done so many steps more; it must not be another one by then."""
        version, goal = self.ledger.version, self.steps_done() + steps
        await self.until(what, limit_s, None, lambda: self.steps_done() >= goal)
        assert self.ledger.version == version, f"{what}: restarted as version {self.ledger.version}"

    # ------------------------------------------------------------------------------------------------ checks

    async def check_all(self) -> dict[str, str]:
        """The job ends well, and the record is whole. What was counted, for the table.

        Raises:
            AssertionError: a promise is broken.
        """
        await self.finish()
        told = await self._all_told_is_stored()
        probed = await self._all_acked_is_stored()
        run = await self._journal()
        return {
            "restarts": str(self.ledger.version - 1),
            "checkpoints told": str(told),
            "acknowledged": str(probed),
            "longest publish": f"{self.probe.longest_s:.1f} s",
            "journal": f"{run.entries_newest} entries, no hole",
        }

    async def _all_told_is_stored(self) -> int:
        """Every checkpoint that a rank handed to its agent is on the bus: an outage has cost no event."""
        told = {(e["rank"], e["step"], e["version"]) for e in self.ledger.events if e["event"] == "told"}
        end_s = asyncio.get_running_loop().time() + DELIVERED_LIMIT_S
        while True:
            stored = await _stored(self.connection, CheckpointReported)
            there = {(each.rank, each.step, each.topology_version) for _, each in stored}
            missing = sorted(told - there)
            if not missing:
                return len(told)
            assert asyncio.get_running_loop().time() < end_s, f"told to an agent, not stored: {missing[:10]}"
            await asyncio.sleep(1)

    async def _all_acked_is_stored(self) -> int:
        ids = {id_ for id_, _ in await _stored(self.connection, SignalObserved, PROBE_NODE)}
        lost = [id_ for id_ in self.probe.acked if id_ not in ids]
        assert not lost, f"{len(lost)} of {len(self.probe.acked)} acknowledged messages are lost"
        return len(self.probe.acked)

    async def _journal(self) -> RunTale:
        record = await read_journal(self.connection, CLUSTER, JOB)
        assert not record.unread, f"unreadable entries: {record.unread}"
        assert len(record.runs) == 1, f"{len(record.runs)} runs in the journal of one"
        run = record.runs[0]
        assert not run.holes, f"the journal has holes: {run.holes}"
        assert run.formed is not None
        assert run.ended is not None
        open_ones = [tale.incident_id for tale in run.incidents if tale.closed is None]
        assert not open_ones, f"incidents without an end: {open_ones}"
        plans = [plan for tale in run.incidents for plan in tale.all(RecoveryPlanned)]
        versions = [plan.topology_version for plan in plans]
        assert len(versions) == len(set(versions)), f"two plans for one version: {versions}"
        return run


async def _stored(connection: Connection, model: type[P], key: str | None = None) -> list[tuple[str, P]]:
    spec = spec_of(model)
    assert spec.stream is not None
    found: list[tuple[str, P]] = []
    async for message in every_stored(connection, spec.stream, spec.pattern(CLUSTER, key)):
        envelope = decode(message.body, message.subject)
        if isinstance(envelope.data, model):
            found.append((envelope.id, envelope.data))
    return found


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
