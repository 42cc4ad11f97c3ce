"""Publish what was decided and not published because the bus was away. At the start `take_over` does the same."""

from __future__ import annotations

from recovery_planner.application.advance_gang import AdvanceGang
from recovery_planner.domain.step import DeadlineExpired
from service_kit.errors import ServiceError
from service_kit.logging import get_logger
from service_kit.ports import Clock

INTERVAL_S = 1.0

log = get_logger(__name__)


class RepublishPending:
    """Owns the retry of effects whose event is not redelivered: alarms, lost agents, a planner that was restarted."""

    def __init__(self, *, advance: AdvanceGang, clock: Clock) -> None:
        self._advance = advance
        self._clock = clock

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._clock.sleep(INTERVAL_S)
            await self.once()

    async def once(self) -> None:
        """Every job that owes something."""
        for job_id in self._advance.owing():
            try:
                await self._advance.handle(job_id, DeadlineExpired())
            except ServiceError as error:
                log.warning("republish_failed", job_id=job_id, error=str(error))
