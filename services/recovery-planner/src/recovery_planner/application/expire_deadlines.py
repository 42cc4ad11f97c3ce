"""One alarm per gang, set to the deadline in its record; when it rings the gang is told that time passed."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from recovery_planner.application.advance_gang import AdvanceGang
from recovery_planner.domain.gang import Gang
from recovery_planner.domain.step import DeadlineExpired
from service_kit.deadlines import Deadlines
from service_kit.errors import PermanentError, TransientError
from service_kit.logging import get_logger
from service_kit.ports import Clock

RETRY_S = 0.25
"""The bus was away when the alarm rang; this use case owns the retry."""

log = get_logger(__name__)


class ExpireDeadlines:
    """A GangWatcher that turns deadlines into events."""

    def __init__(self, *, advance: AdvanceGang, clock: Clock) -> None:
        self._advance = advance
        self._clock = clock
        self._deadlines = Deadlines(clock)
        self._tasks: set[asyncio.Task[None]] = set()

    def observe(self, gang: Gang) -> None:
        """Set the alarm anew."""
        self._deadlines.set(gang.job_id, gang.alarm_at)

    def forget(self, job_id: str) -> None:
        """No alarm any more."""
        self._deadlines.set(job_id, None)

    async def run(self) -> None:
        """Until cancelled."""
        try:
            await self._deadlines.run(self._ring)
        finally:
            for task in self._tasks:
                task.cancel()

    async def _ring(self, job_id: str) -> None:
        # A slow job must not hold up the alarms of the others.
        task = asyncio.create_task(self._expire(job_id), name=f"deadline {job_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _expire(self, job_id: str) -> None:
        try:
            await self._advance.handle(job_id, DeadlineExpired())
        except TransientError as error:
            log.warning("deadline_retried", job_id=job_id, error=str(error))
            self._deadlines.set(job_id, self._clock.now() + timedelta(seconds=RETRY_S))
        except PermanentError as error:
            # A defect, with its traceback in the log; the next event of the job looks at the deadline again.
            log.error("deadline_failed", job_id=job_id, error=str(error))
