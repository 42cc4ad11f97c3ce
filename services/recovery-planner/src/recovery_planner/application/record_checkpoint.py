"""Write down which rank confirmed which checkpoint. Reports that come while a write is under way share the next one."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from fault_contracts.agent import CheckpointReported
from recovery_planner.application.ports import CheckpointStore
from recovery_planner.domain.checkpoint_history import CheckpointHistory, record, refusal
from service_kit.errors import CompareAndSetLost, TransientError
from service_kit.logging import get_logger

LOSSES_MAX = 16
"""Compare-and-sets lost in a row; two planners at most write one record."""

_NONE = CheckpointHistory()
_Told = tuple[CheckpointReported, int | None]
"""With the world size of its generation."""

log = get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class _Page:
    """One job. `written` counts reports that are in the store, `added` those that came."""

    history: CheckpointHistory = _NONE
    revision: int | None = None
    loaded: bool = False
    queue: list[_Told] = field(default_factory=list)
    added: int = 0
    written: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class CheckpointBook:
    """Confirmed checkpoints of the jobs that the leader looks after, written through."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._pages: dict[str, _Page] = {}

    async def load(self, job_id: str) -> None:
        """Have the history at hand, so that deciding need not wait for it."""
        page = self._page(job_id)
        async with page.lock:
            await self._load(job_id, page)

    def history_of(self, job_id: str) -> CheckpointHistory:
        """What is confirmed as far as it is loaded and written."""
        page = self._pages.get(job_id)
        return page.history if page else _NONE

    async def record(self, report: CheckpointReported, *, world_size: int | None = None) -> None:
        """Returns when the confirmation is durable, or refused for good and that is logged.

        Args:
            report: what a rank confirmed.
            world_size: of the generation that it speaks of, where that is known.

        Raises:
            TransientError: it could not be written; safe to repeat.
        """
        page = self._page(report.job_id)
        page.queue.append((report, world_size))
        page.added += 1
        mine = page.added
        async with page.lock:
            if page.written >= mine:
                return
            batch, page.queue = page.queue, []
            upto = page.added
            try:
                await self._write(report.job_id, page, batch)
            except BaseException:
                page.loaded = False
                page.queue = [*batch, *page.queue]
                raise
            page.written = upto

    def forget(self, job_id: str) -> None:
        """The job is over, or somebody else leads."""
        self._pages.pop(job_id, None)

    async def delete(self, job_id: str) -> None:
        """The job's record goes."""
        self.forget(job_id)
        await self._store.delete(job_id)

    def _page(self, job_id: str) -> _Page:
        return self._pages.setdefault(job_id, _Page())

    async def _load(self, job_id: str, page: _Page) -> None:
        if page.loaded:
            return
        stored = await self._store.load(job_id)
        page.history, page.revision = (stored.history, stored.revision) if stored else (_NONE, None)
        page.loaded = True

    async def _write(self, job_id: str, page: _Page, batch: list[_Told]) -> None:
        for _ in range(LOSSES_MAX):
            await self._load(job_id, page)
            history = page.history
            for report, world_size in batch:
                reason = refusal(history, report, world_size=world_size)
                if reason is None:
                    history = record(history, report, world_size=world_size)
                else:
                    log.warning(reason.rule_id, job_id=job_id, node_id=report.node_id, reason=reason.sentence)
            if history is page.history:
                return
            try:
                page.revision = await self._store.save(job_id, history, page.revision)
            except CompareAndSetLost:
                page.loaded = False
                continue
            page.history = history
            return
        raise TransientError(f"checkpoints of job {job_id}: {LOSSES_MAX} writes in a row were overtaken")
