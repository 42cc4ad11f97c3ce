"""Follows a job on the bus, and lets the demo wait for events: faults are timed by what was seen, never by sleeps."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from types import TracebackType
from typing import Self

from fault_contracts.agent import (
    AgentReported,
    CheckpointReported,
    CommandRefused,
    StepReported,
    WorkerExited,
    WorkersCompleted,
    WorkersStarted,
    WorkersStopped,
)
from fault_contracts.dead_letter import DeadLettered
from fault_contracts.faults import FaultClassified
from fault_contracts.hardware import HardwareChanged, NodeStandingChanged
from fault_contracts.health import ConditionRaised
from fault_contracts.inventory import InventoryReported
from fault_contracts.payload import Payload
from fault_contracts.rank_faults import RanksFaulted
from fault_contracts.recovery import (
    GangFormed,
    IncidentClosed,
    IncidentOpened,
    JobEnded,
    NodeLost,
    RecoveryPlanned,
    TrainingResumed,
)
from fault_contracts.registry import Stream, spec_of
from fault_contracts.remediation import NodeTended
from phalanx_cli.demo.story import JobStory
from service_kit.ports import Bus, Delivery, Subscription

WATCHED: tuple[type[Payload], ...] = (
    AgentReported,
    WorkerExited,
    RanksFaulted,
    WorkersStopped,
    WorkersStarted,
    WorkersCompleted,
    CommandRefused,
    StepReported,
    CheckpointReported,
    FaultClassified,
    GangFormed,
    NodeLost,
    IncidentOpened,
    RecoveryPlanned,
    TrainingResumed,
    IncidentClosed,
    JobEnded,
    InventoryReported,
    ConditionRaised,
    HardwareChanged,
    NodeStandingChanged,
    NodeTended,
    DeadLettered,
)

OnEvent = Callable[[JobStory, Payload, datetime], None]
"""Called for each event of the watched job, after the story took it in."""


class NotSeen(Exception):
    """What the demo waited for did not come in time; the text says what and where to look."""


class Watch:
    """Consumers for one job at a time; the job is chosen with `follow`."""

    def __init__(self, bus: Bus, on_event: OnEvent) -> None:
        self._bus = bus
        self._on_event = on_event
        self._story: JobStory | None = None
        self._changed = asyncio.Condition()
        self._subscriptions: list[Subscription] = []
        self.dead_letters: list[DeadLettered] = []

    async def __aenter__(self) -> Self:
        by_stream: dict[Stream | None, list[type[Payload]]] = defaultdict(list)
        for message in WATCHED:
            by_stream[spec_of(message).stream].append(message)
        for stream, messages in by_stream.items():
            durable = f"demo-{str(stream).lower()}"
            self._subscriptions.append(
                await self._bus.consume(durable=durable, messages=messages, handler=self._handle, from_now=True)
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.gather(*(subscription.stop() for subscription in self._subscriptions))

    def follow(self, story: JobStory) -> None:
        """From now on, take in the events of this job."""
        self._story = story

    async def until(self, condition: Callable[[], bool], what: str, *, limit_s: float) -> None:
        """Return as soon as an event makes the condition true.

        Raises:
            NotSeen: the limit passed first.
        """
        try:
            async with asyncio.timeout(limit_s), self._changed:
                await self._changed.wait_for(condition)
        except TimeoutError:
            raise NotSeen(f"waited {limit_s:g} s for {what}") from None

    async def notice(self) -> None:
        """Let waiters look again: something outside the bus changed, for example an agent's process ended."""
        async with self._changed:
            self._changed.notify_all()

    async def _handle(self, delivery: Delivery) -> None:
        event = delivery.envelope.data
        if isinstance(event, DeadLettered):
            self.dead_letters.append(event)
            return
        story = self._story
        # A device belongs to no job: what is said of it concerns whichever runs.
        if story is None or (getattr(event, "job_id", "") or story.job_id) != story.job_id:
            return
        async with self._changed:
            story.apply(event)
            self._on_event(story, event, delivery.envelope.time)
            self._changed.notify_all()
