"""Agents of one job that exist in name only: they answer every command at once, over one connection."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from fault_contracts.agent import (
    AgentPhase,
    AgentReported,
    ExitStatus,
    JobSpec,
    WorkerExited,
    WorkersStarted,
    WorkersStopped,
)
from fault_contracts.commands import StartWorkers, StopWorkers
from fault_contracts.envelope import seal
from fault_contracts.faults import Action, Attribution, Culprit, FaultClassified
from fault_contracts.ids import derived_id
from fault_contracts.payload import Payload, Reason
from service_kit.ports import Bus, Delivery, Subscription

JOB = "bench"
NPROC = 8
IN_FLIGHT = 256
RACK_NODES, SWITCH_NODES, DOMAIN_NODES = 48, 24, 8


def stand(number: int) -> dict[str, str]:
    """Labels of a node: 8 nodes a NVLink domain, 24 a switch, 48 a rack."""
    return {
        "rack": f"r{number // RACK_NODES}",
        "switch": f"s{number // SWITCH_NODES}",
        "nvlink_domain": f"d{number // DOMAIN_NODES}",
    }


class Fleet:
    """`nnodes` agents and `spares`; hears commands once for all of them."""

    def __init__(self, bus: Bus, *, nnodes: int, spares: int) -> None:
        self.spec = JobSpec(nnodes=nnodes, nproc_per_node=NPROC, spares=spares, restarts_max=1_000)
        self.nodes = [f"node-{number:05d}" for number in range(nnodes + spares)]
        self.seats = self.nodes[:nnodes]
        self.heard: asyncio.Queue[tuple[float, StopWorkers | StartWorkers]] = asyncio.Queue()
        self.version = 0
        self._bus = bus
        self._sent = 0
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._subscription: Subscription | None = None

    async def listen(self) -> None:
        """Begin to hear commands."""
        self._subscription = await self._bus.listen(messages=[StopWorkers, StartWorkers], handler=self._hear, key=JOB)

    async def close(self) -> None:
        """Stop hearing."""
        if self._subscription is not None:
            await self._subscription.stop()

    async def join(self) -> None:
        """All agents report."""
        await self._publish_all(self._report(number) for number in range(len(self.nodes)))

    async def die(self, node: str) -> float:
        """One rank of a node dies; returns when that was said."""
        began = time.perf_counter()
        rank = self.seats.index(node) * NPROC
        await self.publish(
            WorkerExited(
                node_id=node,
                instance_id=instance(node),
                job_id=JOB,
                topology_version=self.version,
                ordinal=0,
                exit=ExitStatus(rank=rank, local_rank=0, pid=1, signal=9),
                ran_s=60,
                observed_at=datetime.now(UTC),
            )
        )
        return began

    async def stopped(self, command: StopWorkers, seats: Iterable[str]) -> None:
        """Nodes report that their ranks have ended."""
        await self._publish_all(
            WorkersStopped(
                node_id=node,
                instance_id=instance(node),
                job_id=JOB,
                topology_version=command.fence.topology_version,
                operation_id=command.operation_id,
                master_port=29_500,
                duration_s=0.1,
            )
            for node in seats
        )

    async def started(self, command: StartWorkers, seats: Iterable[str]) -> None:
        """Nodes report that their ranks run."""
        await self._publish_all(
            WorkersStarted(
                node_id=node,
                instance_id=instance(node),
                job_id=JOB,
                topology_version=command.fence.topology_version,
                operation_id=command.operation_id,
                pids=tuple(range(1, NPROC + 1)),
                source="nursery",
                duration_s=0.1,
            )
            for node in seats
        )

    async def blame(self, node: str) -> float:
        """The verdict: this node's hardware; returns when that was said."""
        began = time.perf_counter()
        await self.publish(
            FaultClassified(
                fault_id=derived_id(JOB, "fault", self.version),
                job_id=JOB,
                topology_version=self.version,
                attribution=Attribution.HARDWARE,
                cause="gpu_memory",
                culprit=Culprit(node_id=node),
                confidence=0.95,
                action=Action.REPLACE_NODE,
                reasons=(Reason(rule_id="bench", sentence="for the sake of the measurement"),),
                summary="",
                classified_at=datetime.now(UTC),
            )
        )
        return began

    async def publish(self, payload: Payload) -> None:
        """One message, stored."""
        self._sent += 1
        envelope = seal(payload, source="bench", cause_id="bench", time=datetime.now(UTC), ordinal=self._sent)
        async with self._slots:
            await self._bus.publish(envelope)

    async def _publish_all(self, payloads: Iterable[Payload]) -> None:
        await asyncio.gather(*(self.publish(payload) for payload in payloads))

    async def _hear(self, delivery: Delivery) -> None:
        self.heard.put_nowait((time.perf_counter(), delivery.envelope.data))

    def take_over(self, moved: Mapping[int, str], version: int) -> None:
        """The seats after a start."""
        for node_rank, node in moved.items():
            self.seats[node_rank] = node
        self.version = version

    def _report(self, number: int) -> AgentReported:
        node = self.nodes[number]
        return AgentReported(
            node_id=node,
            instance_id=instance(node),
            job_id=JOB,
            spec=self.spec,
            node_labels=stand(number),
            address=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
            master_port=20_000 + number % 40_000,
            phase=AgentPhase.READY,
            topology_version=0,
            pid=1,
            host=node,
            reported_at=datetime.now(UTC),
        )


def instance(node: str) -> str:
    """As real ones are: a digest."""
    return derived_id(node, "instance")
