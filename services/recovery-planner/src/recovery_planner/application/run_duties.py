"""What the leader does: take over every job, hear the agents and the verdicts, keep the alarms."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

from fault_contracts.agent import (
    AgentHeartbeat,
    AgentLeft,
    AgentReported,
    CheckpointReported,
    CommandRefused,
    RankLabelsReported,
    StepReported,
    WorkerExited,
    WorkersCompleted,
    WorkersStarted,
    WorkersStopped,
)
from fault_contracts.faults import FaultClassified
from fault_contracts.lone_agent import AgentActedAlone
from fault_contracts.preemption import PreemptionNoticed
from fault_contracts.rank_faults import RanksFaulted
from recovery_planner.application.advance_gang import AdvanceGang
from recovery_planner.application.answer_admission import AnswerAdmission
from recovery_planner.application.care_duties import CareDuties
from recovery_planner.application.expire_deadlines import ExpireDeadlines
from recovery_planner.application.node_standings import StandingBook
from recovery_planner.application.ports import GangStore
from recovery_planner.application.record_checkpoint import CheckpointBook
from recovery_planner.application.record_labels import LabelIntake
from recovery_planner.application.republish_pending import RepublishPending
from recovery_planner.application.watch_agents import WatchAgents
from recovery_planner.application.watch_nodes import MESSAGES as ABOUT_NODES
from recovery_planner.application.watch_nodes import WatchNodes
from service_kit.errors import PermanentError
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock, Delivery, Subscription

DURABLE = "recovery-planner"
DURABLE_NODES = "recovery-planner-nodes"
"""Apart, so that a storm of conditions does not stand before a death in the queue."""
EVENTS = (
    AgentReported,
    AgentLeft,
    WorkerExited,
    RanksFaulted,
    WorkersStopped,
    WorkersStarted,
    WorkersCompleted,
    CommandRefused,
    StepReported,
    FaultClassified,
    PreemptionNoticed,
    AgentActedAlone,
)
"""Messages that are events of a gang as they are."""
RECORDS = (CheckpointReported, RankLabelsReported)
"""Messages that are collected and written down many at a time."""
TAKEN_OVER_AT_ONCE = 32
"""Records read side by side when a lead begins."""

log = get_logger(__name__)


class RunDuties:
    """Starts and stops the leader's work as one."""

    def __init__(
        self,
        *,
        bus: Bus,
        clock: Clock,
        store: GangStore,
        advance: AdvanceGang,
        checkpoints: CheckpointBook,
        watch: WatchAgents,
        deadlines: ExpireDeadlines,
        admission: AnswerAdmission,
        nodes: WatchNodes,
        standings: StandingBook,
        ended_kept_s: float,
        care: CareDuties | None = None,
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._store = store
        self._advance = advance
        self._checkpoints = checkpoints
        self._labels = LabelIntake(advance)
        self._watch = watch
        self._deadlines = deadlines
        self._admission = admission
        self._nodes = nodes
        self._standings = standings
        self._republish = RepublishPending(advance=advance, clock=clock)
        self._ended_kept_s = ended_kept_s
        self._care = care
        self._subscriptions: list[Subscription] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def take_up(self) -> None:
        """See `lead.Duties`. Records come first: a report is decided against what was decided before."""
        if self._care is not None:
            await self._care.tend.load()
        await self._take_over_jobs()
        self._start(self._deadlines.run(), "deadlines")
        self._start(self._watch.run(), "watch agents")
        self._start(self._republish.run(), "republish")
        self._subscriptions.append(await self._bus.listen(messages=[AgentHeartbeat], handler=self._watch.heard))
        self._subscriptions.append(
            await self._bus.consume(durable=DURABLE, messages=[*EVENTS, *RECORDS], handler=self.hear, reclaim=True)
        )
        # From now: what was wrong with a node before anybody planned here stands in its record, and is read there.
        self._subscriptions.append(
            await self._bus.consume(
                durable=DURABLE_NODES, messages=ABOUT_NODES, handler=self._hear_of_node, from_now=True, reclaim=True
            )
        )

        if self._care is not None:
            self._subscriptions.append(await self._care.answer_persons())
            self._start(self._care.run(), "care of nodes")

    async def lay_down(self) -> None:
        """See `lead.Duties`."""
        for subscription in reversed(self._subscriptions):
            await subscription.stop()
        self._subscriptions.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._advance.stop()
        await self._admission.stop()
        self._standings.forget()
        if self._care is not None:
            self._care.tend.forget()

    async def hear(self, delivery: Delivery) -> None:
        """One message: an event of its gang, a checkpoint, or labels of a rank."""
        payload = delivery.envelope.data
        if isinstance(payload, CheckpointReported):
            gang = self._advance.gang_of(payload.job_id)
            world_size = None if gang is None else gang.world_size_at(payload.topology_version)
            await self._checkpoints.record(payload, world_size=world_size)
            gang = self._advance.gang_of(payload.job_id)
            if gang is not None and gang.awaits_checkpoint:
                # Somebody waits for this checkpoint; at all other times the gang is not moved by one.
                await self._advance.handle(payload.job_id, payload, delivery.envelope.id)
        elif isinstance(payload, RankLabelsReported):
            await self._labels.record(payload)
        else:
            if isinstance(payload, AgentReported):
                await self._standings.know(payload.node_id)
            await self._advance.handle(payload.job_id, payload, delivery.envelope.id)
            if isinstance(payload, FaultClassified) and self._care is not None:
                await self._care.hear.hear(delivery)

    async def _hear_of_node(self, delivery: Delivery) -> None:
        """The jobs first: they stop before anybody thinks of repairs."""
        await self._nodes.hear(delivery)
        if self._care is not None:
            await self._care.hear.hear(delivery)

    def failed(self) -> str | None:
        """What is wrong with the leader's background work, for /readyz."""
        for task in self._tasks:
            if task.done() and not task.cancelled() and task.exception() is not None:
                return f"{task.get_name()}: {task.exception()}"
        return None

    async def _take_over_jobs(self) -> None:
        slots = asyncio.Semaphore(TAKEN_OVER_AT_ONCE)

        async def take_over(job_id: str) -> None:
            async with slots:
                await self._take_over(job_id)

        await asyncio.gather(*(take_over(job_id) for job_id in await self._store.job_ids()))

    async def _take_over(self, job_id: str) -> None:
        try:
            await self._take_over_one(job_id)
        except PermanentError as error:
            # One damaged record, or one of a newer version, must not keep the other jobs without a planner.
            log.error("job_not_taken_over", job_id=job_id, error=str(error))

    async def _take_over_one(self, job_id: str) -> None:
        stored = await self._store.load(job_id)
        if stored is None:
            return
        ending = stored.gang.ending
        if ending is not None and stored.gang.is_over:
            if self._clock.now() - ending.ended_at > timedelta(seconds=self._ended_kept_s):
                await self._store.delete(job_id)
                await self._checkpoints.delete(job_id)
                log.info("ended_job_removed", job_id=job_id, ended_at=ending.ended_at.isoformat())
            return
        await self._advance.take_over(job_id)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))
