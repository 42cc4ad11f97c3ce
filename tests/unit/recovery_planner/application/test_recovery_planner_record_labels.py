"""Labels that come while one batch is written share the next write, and each report learns how its own went."""

import asyncio
from typing import Any, cast

import pytest

from fault_contracts.agent import RankLabelsReported
from recovery_planner.application.advance_gang import AdvanceGang
from recovery_planner.application.record_labels import LabelIntake
from recovery_planner.domain.rank_labels import RanksLabelled
from service_kit.errors import TransientError

pytestmark = pytest.mark.asyncio


class SlowGang:
    """Takes events when the test lets it."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.called, self.gate = asyncio.Event(), asyncio.Event()
        self.failure: Exception | None = None

    async def handle(self, _job_id: str, event: Any) -> None:
        assert isinstance(event, RanksLabelled)
        self.batches.append([report.rank for report in event.reports])
        self.called.set()
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure


def report(rank: int, job_id: str = "j") -> RankLabelsReported:
    return RankLabelsReported(node_id="n", job_id=job_id, topology_version=1, rank=rank, labels={"dp": str(rank)})


async def test_what_comes_during_a_write_shares_the_next_one() -> None:
    gang = SlowGang()
    intake = LabelIntake(cast("AdvanceGang", gang))
    first = asyncio.create_task(intake.record(report(0)))
    await gang.called.wait()
    rest = [asyncio.create_task(intake.record(report(rank))) for rank in range(1, 50)]
    await asyncio.sleep(0)
    gang.gate.set()
    await asyncio.gather(first, *rest)
    assert gang.batches == [[0], list(range(1, 50))]


async def test_a_failed_write_is_told_to_each_report_of_its_batch_and_the_next_is_tried() -> None:
    gang = SlowGang()
    gang.gate.set()
    gang.failure = TransientError("the bus is away")
    intake = LabelIntake(cast("AdvanceGang", gang))
    results = await asyncio.gather(*(intake.record(report(rank)) for rank in range(3)), return_exceptions=True)
    assert all(isinstance(result, TransientError) for result in results)
    gang.failure = None
    await intake.record(report(0))
