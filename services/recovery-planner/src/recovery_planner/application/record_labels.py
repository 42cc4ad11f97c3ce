"""Hand labels of ranks to the gang record, many at a time: what comes while one write is under way shares the next."""

from __future__ import annotations

import asyncio

from fault_contracts.agent import RankLabelsReported
from recovery_planner.application.advance_gang import AdvanceGang
from recovery_planner.domain.rank_labels import RanksLabelled

_Waiting = tuple[RankLabelsReported, asyncio.Future[None]]


class LabelIntake:
    """At the start of a large job every rank speaks at once, and each change of the record is a whole write."""

    def __init__(self, advance: AdvanceGang) -> None:
        self._advance = advance
        self._waiting: dict[str, list[_Waiting]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def record(self, report: RankLabelsReported) -> None:
        """Returns when the labels are durable, or refused for good.

        Raises:
            TransientError: they could not be written; safe to repeat.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(report.job_id, []).append((report, done))
        if report.job_id not in self._tasks:
            self._tasks[report.job_id] = asyncio.create_task(self._work(report.job_id), name=f"labels {report.job_id}")
        await done

    async def _work(self, job_id: str) -> None:
        try:
            while batch := self._waiting.pop(job_id, []):
                event = RanksLabelled(reports=tuple(report for report, _ in batch))
                try:
                    await self._advance.handle(job_id, event)
                except Exception as error:  # noqa: BLE001 - whoever waits for the report gets it, and judges it
                    _settle(batch, error)
                else:
                    _settle(batch, None)
        finally:
            del self._tasks[job_id]


def _settle(batch: list[_Waiting], error: Exception | None) -> None:
    for _, done in batch:
        if done.done():
            continue
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)
