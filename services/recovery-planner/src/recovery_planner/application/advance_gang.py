"""Load, decide, persist with what is to be published, publish, clear, acknowledge: the one way in which a gang changes.

Events of one job are decided one after another by one task; what queues up meanwhile is decided together and written
once. No list of handled message ids is kept: `step` is idempotent, so a redelivered event is decided again and changes
nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from fault_contracts.agent import AgentReported
from recovery_planner.application.gang_desk import Desk, Request
from recovery_planner.application.ports import Failpoints, GangStore, GangWatcher
from recovery_planner.application.publish_effects import EffectPublisher
from recovery_planner.application.record_checkpoint import CheckpointBook
from recovery_planner.domain.gang import Gang
from recovery_planner.domain.gang_machine import IllegalMove
from recovery_planner.domain.invariants import InvariantBroken, assert_holds, violations
from recovery_planner.domain.node_fit import NOTHING_KNOWN, Fits
from recovery_planner.domain.nodes_report import NodesReport
from recovery_planner.domain.policy import Policy
from recovery_planner.domain.shared_causes import Sightings
from recovery_planner.domain.step import DeadlineExpired, Event, new_gang, step, step_together
from service_kit.errors import CompareAndSetLost, IllegalTransition, StaleLeader, TransientError
from service_kit.logging import get_logger
from service_kit.ports import Clock

LOSSES_MAX = 16
"""Compare-and-sets lost in a row. Two planners at most write one record, and only while the older one steps down."""

log = get_logger(__name__)


class AdvanceGang:
    """The leader's desks, one per job that is not over."""

    def __init__(
        self,
        *,
        store: GangStore,
        checkpoints: CheckpointBook,
        publisher: EffectPublisher,
        clock: Clock,
        policy: Policy,
        failpoints: Failpoints,
        watchers: Sequence[GangWatcher] = (),
        fits: Fits = NOTHING_KNOWN,
        sightings: Sightings = (),
    ) -> None:
        self._store = store
        self._checkpoints = checkpoints
        self._publisher = publisher
        self._clock = clock
        self._policy = policy
        self._failpoints = failpoints
        self._fits = fits
        self._sightings = sightings
        self.watchers: list[GangWatcher] = list(watchers)
        self._desks: dict[str, Desk] = {}

    async def handle(self, job_id: str, event: Event, cause_id: str = "") -> None:
        """Decide on one event; returns when the record is written and its effects are published and cleared.

        Raises:
            TransientError: not all of it could be done; the event may be handed in again.
            IllegalTransition: a defect; the record was not changed.
        """
        desk = self._desks.setdefault(job_id, Desk(job_id=job_id))
        request = Request(event=event, cause_id=cause_id, done=asyncio.get_running_loop().create_future())
        desk.queue.append(request)
        if desk.task is None:
            desk.task = asyncio.create_task(self._work(desk), name=f"gang {job_id}")
        await request.done

    async def take_over(self, job_id: str) -> Gang | None:
        """Load a job at the start of our lead and publish what its record still owes."""
        await self.handle(job_id, DeadlineExpired())
        desk = self._desks.get(job_id)
        return desk.gang if desk else None

    def gang_of(self, job_id: str) -> Gang | None:
        """The record as the leader knows it; None for a job that is over or unknown."""
        desk = self._desks.get(job_id)
        return desk.gang if desk else None

    def is_idle(self, job_id: str) -> bool:
        """Nobody works on this job now."""
        desk = self._desks.get(job_id)
        return desk is None or desk.task is None

    def owing(self) -> list[str]:
        """Jobs that nobody works on and that have unpublished effects, or a record that could not be reached."""
        idle = [desk for desk in self._desks.values() if desk.task is None]
        return [desk.job_id for desk in idle if desk.unsure or (desk.gang is not None and desk.gang.pending)]

    async def stop(self) -> None:
        """Finish what is in hand and forget everything: somebody else may lead from now on."""
        tasks = [desk.task for desk in self._desks.values() if desk.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)
        for job_id in list(self._desks):
            self._drop(job_id)

    # ------------------------------------------------------------------------------------------------ one desk

    async def _work(self, desk: Desk) -> None:
        waiting: list[Request] = []
        try:
            while desk.queue or waiting:
                fresh = list(desk.queue)
                desk.queue.clear()
                waiting += fresh
                try:
                    await self._cycle(desk, fresh)
                except CompareAndSetLost as error:
                    self._lost(desk, waiting, error)
                    waiting = []
                except Exception as error:  # noqa: BLE001 - whoever waits for the event gets it, and judges it
                    self._fail(desk, waiting, error)
                    waiting = []
                else:
                    desk.losses = 0
                    if not desk.dirty:
                        self._failpoints.reach("before_ack")
                        for request in waiting:
                            request.resolve()
                        waiting = []
        finally:
            desk.task = None
            for request in (*waiting, *desk.queue):  # only when this task was cancelled
                request.fail(TransientError("the planner is stopping"))
            if (desk.gang is None or desk.gang.is_over) and not desk.unsure:
                self._drop(desk.job_id)

    async def _cycle(self, desk: Desk, fresh: list[Request]) -> None:
        """Decide what is new, write, publish. Leaves `dirty` when the cleared record is still to be written."""
        is_copy = desk.loaded
        if not is_copy:
            await self._load(desk)
        self._decide_all(desk, fresh)
        if desk.gang is None:
            return
        if desk.doubtful and is_copy and not desk.dirty:
            await self._make_sure(desk)
        desk.doubtful = False
        if desk.dirty:
            owed = bool(desk.gang.pending)
            desk.revision = await self._store.save(desk.gang, desk.revision)
            desk.dirty = False
            self._failpoints.reach("after_persist" if owed else "after_clear")
        if desk.gang.pending:
            await self._publisher.publish(desk.gang)
            desk.gang = replace(desk.gang, pending=())
            desk.dirty = True

    async def _load(self, desk: Desk) -> None:
        await self._checkpoints.load(desk.job_id)
        stored = await self._store.load(desk.job_id)
        desk.loaded, desk.unsure = True, False
        if stored is not None:
            assert_holds(stored.gang)
            desk.gang, desk.revision = stored.gang, stored.revision
            self._tell_watchers(desk.gang)
        self._failpoints.reach("after_load")

    async def _make_sure(self, desk: Desk) -> None:
        """An event is about to be forgotten because it does not fit: not on the word of a copy that is out of date.

        A write would find that out by itself; forgetting writes nothing.

        Raises:
            CompareAndSetLost: another planner wrote since; everything is decided again.
        """
        if await self._store.revision(desk.job_id) != desk.revision:
            raise CompareAndSetLost(f"gang of job {desk.job_id} was written by another planner")

    def _decide_all(self, desk: Desk, fresh: list[Request]) -> None:
        """Fold events into the record, then check it and tell the watchers: once for all, each is a look at all nodes.

        When it does not hold they are decided once more, each with a look of its own: only the one at fault fails.
        """
        before = desk.gang, desk.dirty, desk.doubtful
        for kind, run in groupby(fresh, key=lambda request: type(request.event)):
            together = list(run)
            if len(together) > 1 and issubclass(kind, NodesReport) and self._decide_together(desk, together):
                continue
            for request in together:
                self._decide(desk, request, look=len(fresh) == 1)
        if len(fresh) > 1 and desk.gang is not None and any(violations(desk.gang)):
            desk.gang, desk.dirty, desk.doubtful = before
            for request in fresh:
                if not request.done.done():
                    self._decide(desk, request, look=True)
        if desk.gang is not None and fresh:
            self._tell_watchers(desk.gang)  # also when nothing changed: an alarm that came too early is set again

    def _decide(self, desk: Desk, request: Request, *, look: bool) -> None:
        """Fold one event into the record; one that cannot be decided fails alone."""
        now = self._clock.now()
        gang = desk.gang
        if gang is None:
            if not isinstance(request.event, AgentReported):
                log.debug("unknown_job", job_id=desk.job_id, what=type(request.event).__name__)
                return
            gang = new_gang(request.event, now=now)
        try:
            result = step(
                gang,
                request.event,
                now=now,
                policy=self._policy,
                history=self._checkpoints.history_of(desk.job_id),
                cause_id=request.cause_id,
                fits=self._fits,
                sightings=self._sightings,
            )
            if look:
                assert_holds(result.gang)
        except (IllegalMove, InvariantBroken, AssertionError) as error:
            log.exception("decision_failed", job_id=desk.job_id, what=type(request.event).__name__)
            request.fail(IllegalTransition(f"{type(request.event).__name__} on job {desk.job_id}: {error}"))
            return
        desk.take(result)
        self._failpoints.reach("after_decide")

    def _decide_together(self, desk: Desk, requests: list[Request]) -> bool:
        """Fold reports of one kind into the record at once; False, and nothing changed: they have to go one by one."""
        if desk.gang is None:
            return False
        try:
            result = step_together(
                desk.gang,
                [request.event for request in requests if isinstance(request.event, NodesReport)],
                now=self._clock.now(),
                policy=self._policy,
                history=self._checkpoints.history_of(desk.job_id),
                cause_id=requests[-1].cause_id,
                fits=self._fits,
                sightings=self._sightings,
            )
        except (IllegalMove, AssertionError):
            log.exception("decision_failed", job_id=desk.job_id, what=type(requests[0].event).__name__)
            return False
        desk.take(result)
        for _ in requests:
            self._failpoints.reach("after_decide")
        return True

    def _tell_watchers(self, gang: Gang) -> None:
        for watcher in self.watchers:
            watcher.observe(gang)

    def _lost(self, desk: Desk, waiting: list[Request], error: CompareAndSetLost) -> None:
        """Somebody else wrote: reload and decide everything again that is not acknowledged."""
        desk.forget()
        desk.losses += 1
        if desk.losses < LOSSES_MAX:
            desk.queue.extendleft(reversed(waiting))
            return
        desk.losses = 0
        log.error("compare_and_set_starved", job_id=desk.job_id, losses=LOSSES_MAX)
        for request in waiting:
            request.fail(TransientError(f"job {desk.job_id}: {LOSSES_MAX} writes in a row were overtaken: {error}"))

    def _fail(self, desk: Desk, waiting: list[Request], error: Exception) -> None:
        is_stale = isinstance(error, StaleLeader)
        if desk.dirty or is_stale:
            # Whether it was written is unknown, or it is no longer ours: the store knows.
            desk.forget()
        # A heartbeat or a lost agent is not told again, so the alarms of this job must not be dropped with the copy.
        desk.unsure = desk.gang is None and not is_stale
        if is_stale:
            error = TransientError(f"job {desk.job_id}: another planner leads")
        log.warning("gang_not_advanced", job_id=desk.job_id, error=str(error), type=type(error).__name__)
        for request in waiting:
            request.fail(error)

    def _drop(self, job_id: str) -> None:
        self._desks.pop(job_id, None)
        self._checkpoints.forget(job_id)
        for watcher in self.watchers:
            watcher.forget(job_id)
