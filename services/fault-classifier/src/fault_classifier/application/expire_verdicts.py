"""What time alone does: verdicts that are due without a cause, jobs to forget, messages a predecessor still owes."""

from __future__ import annotations

from datetime import timedelta

from fault_classifier.application.classify_fault import ClassifyFault
from fault_classifier.application.ports import EvidenceRecords
from fault_classifier.domain.event import TimePassed
from service_kit.deadlines import Deadlines
from service_kit.errors import PermanentError, TransientError
from service_kit.logging import get_logger
from service_kit.ports import Clock

RETRY_S = 0.1
"""This use case owns the retry of a verdict that was due while the bus did not answer; the planner waits for it."""

_log = get_logger(__name__)


class ExpireVerdicts:
    """Keeps the alarms of all jobs and acts when one is due."""

    def __init__(
        self,
        *,
        classify: ClassifyFault,
        records: EvidenceRecords,
        deadlines: Deadlines,
        clock: Clock,
        rescan_s: float,
        history_s: float,
    ) -> None:
        self._classify = classify
        self._records = records
        self._deadlines = deadlines
        self._clock = clock
        self._rescan_s = rescan_s
        self._history = timedelta(seconds=history_s)

    async def run(self) -> None:
        """Act on each deadline as it passes, until cancelled."""
        await self._deadlines.run(self.expire)

    async def rescan_forever(self) -> None:
        """Look at every record, at start and from time to time: another replica may have died with its alarms."""
        while True:
            try:
                await self.rescan()
            except TransientError as error:
                _log.warning("rescan_failed", error=str(error))
                await self._clock.sleep(RETRY_S)
                continue
            await self._clock.sleep(self._rescan_s)

    async def rescan(self) -> None:
        """Set the alarm of each job, publish what is still owed, and forget what is old."""
        for job_id in await self._records.job_ids():
            try:
                await self._look_at(job_id)
            except PermanentError as error:
                # One record that cannot be read must not keep the others from their verdicts.
                _log.error("record_unreadable", job_id=job_id, error=str(error))

    async def expire(self, job_id: str) -> None:
        """Let time act on one job."""
        try:
            await self._classify.apply(job_id, TimePassed())
        except TransientError as error:
            _log.warning("verdict_delayed", job_id=job_id, error=str(error))
            self._deadlines.set(job_id, self._clock.now() + timedelta(seconds=RETRY_S))
        except PermanentError as error:
            _log.error("verdict_refused", job_id=job_id, error=str(error))

    async def _look_at(self, job_id: str) -> None:
        record = await self._records.load(job_id)
        touched_at = record.job.touched_at if record is not None else None
        if touched_at is not None and self._clock.now() - touched_at > self._history:
            await self._classify.forget(job_id)
        else:
            await self._classify.apply(job_id, TimePassed())
