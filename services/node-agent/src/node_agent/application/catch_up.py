"""Level-triggered: read the newest stored command and handle it, so that a lost push costs seconds, not a job."""

from __future__ import annotations

import asyncio

from fault_contracts.preemption import RequestCheckpoint
from node_agent.application.agent_life import AgentLife
from node_agent.application.obey_commands import COMMANDS, CommandIntake
from node_agent.domain.fence import point_of
from service_kit.errors import TransientError
from service_kit.ports import Bus, Clock, Delivery


class CatchUp:
    """Reads at connect, at reconnect, after a sequence gap and every `interval_s`."""

    def __init__(self, life: AgentLife, bus: Bus, intake: CommandIntake, clock: Clock, *, interval_s: float) -> None:
        self._life = life
        self._bus = bus
        self._intake = intake
        self._clock = clock
        self._interval_s = interval_s
        self._past_sequence = 0

    async def mark_past(self) -> None:
        """Note the newest command stored before this life reported itself; it and what is older is not for us.

        A job id may be used again on a lasting bus: the end of its last run must not end the next one. Nothing that a
        planner ordered before it knew of this instance can concern it. Tried until the bus answers.
        """
        while True:
            try:
                found = await self._bus.last_commands(key=self._life.identity.job_id, messages=COMMANDS)
            except TransientError:
                await self._clock.sleep(self._interval_s)
                continue
            self._past_sequence = max((delivery.stream_sequence or 0 for delivery in found), default=0)
            return

    async def once(self) -> bool:
        """Handle the newest command.

        Returns:
            False when the bus could not be asked; the next round will.
        """
        try:
            found = await self._bus.last_commands(key=self._life.identity.job_id, messages=COMMANDS)
        except TransientError:
            # Being cut off is normal for an agent: training goes on, and the reconnect brings the next catch-up.
            return False
        fresh = [delivery for delivery in found if (delivery.stream_sequence or 0) > self._past_sequence]
        if fresh:
            ordered = sorted(fresh, key=lambda delivery: point_of(delivery.envelope.data))
            # A request for a checkpoint says nothing of what should run: the order before it counts as well.
            first = max((n for n, d in enumerate(ordered) if not _is_request(d)), default=0)
            for delivery in ordered[first:]:
                await self._intake.handle(delivery.envelope, pushed=False)
        return True

    async def forever(self) -> None:
        """One look every `interval_s` until cancelled."""
        while True:
            await self._clock.sleep(self._interval_s)
            await self.once()

    def soon(self) -> asyncio.Task[bool]:
        """One look now, from a callback; the caller keeps the task."""
        return asyncio.get_running_loop().create_task(self.once())


def _is_request(delivery: Delivery) -> bool:
    return isinstance(delivery.envelope.data, RequestCheckpoint)
