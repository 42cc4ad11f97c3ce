"""Load, decide, persist with what is to be published, publish, clear: the one way in which the life of a node changes.

One event at a time, over all nodes: they share the breaker. Stories are rare, and what changes nothing costs nothing.
Whoever is taken out of use is told to every gang that has an agent there, before anything is done to the node.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from fault_contracts.cluster_policy import ClusterPolicy
from fault_contracts.hardware import NodeStanding
from fault_contracts.payload import Health, Reason
from fault_contracts.remediation import NodePhase
from recovery_planner.application.advance_gang import AdvanceGang
from recovery_planner.application.node_standings import StandingBook
from recovery_planner.application.node_ward import NodeWard
from recovery_planner.application.ports import Failpoints, NodeStandingStore
from recovery_planner.application.publish_care import CarePublisher
from recovery_planner.application.tending_ports import NodeFigures
from recovery_planner.application.watch_nodes import WatchNodes
from recovery_planner.domain.gang_machine import IllegalMove
from recovery_planner.domain.known_bad import known_bad
from recovery_planner.domain.node_care import Around
from recovery_planner.domain.node_fitness import NodeStandingSeen
from recovery_planner.domain.node_life import fit_of_life
from recovery_planner.domain.node_tend import NodeEvent, NodeLooked, Tended, tend
from recovery_planner.domain.occupancy import may_have_ranks
from recovery_planner.domain.preemption import NodeWithdrawn
from service_kit.errors import CompareAndSetLost, IllegalTransition, PermanentError, ServiceError, TransientError
from service_kit.logging import get_logger
from service_kit.ports import Clock

LOOK_EVERY_S = 1.0
LOSSES_MAX = 8
"""Compare-and-sets lost in a row; two planners at most write, and only while the older one steps down."""
QUIET_RULES = ("report.", "ladder.none")

log = get_logger(__name__)


class TendNodes:
    """The leader's care of nodes."""

    def __init__(
        self,
        *,
        ward: NodeWard,
        standings: NodeStandingStore,
        book: StandingBook,
        advance: AdvanceGang,
        where: WatchNodes,
        publisher: CarePublisher,
        clock: Clock,
        policy: ClusterPolicy,
        failpoints: Failpoints,
        figures: NodeFigures,
        has_pool: bool,
    ) -> None:
        self.ward = ward
        self.policy = policy
        self._standings = standings
        self._book = book
        self._advance = advance
        self._where = where
        self._publisher = publisher
        self._clock = clock
        self._failpoints = failpoints
        self._figures = figures
        self._has_pool = has_pool
        self._lock = asyncio.Lock()
        self._told: set[str] = set()
        """Nodes whose gangs all know that they are out of use."""
        self._owed: set[str] = set()
        """Nodes whose gangs are still to be told of a change."""

    async def load(self) -> None:
        """At the start of a lead, before any gang decides: what is out of use stays so.

        Raises:
            TransientError: the store did not answer.
        """
        await self.ward.load(await self._standings.node_ids())
        for life in self.ward.all():
            await self._book.overlay(life.node_id, fit_of_life(life, dry_run=self.policy.dry_run))

    def forget(self) -> None:
        """Somebody else leads."""
        self.ward.forget()
        self._told.clear()
        self._owed.clear()

    async def look_at_all(self) -> None:
        """Every node that something has to be done for, and every standing that is bad: once a lead begins."""
        for life in self.ward.all():
            await self._look(life.node_id)
        if self.policy.ladder is None:
            return
        for node_id in await self._standings.node_ids():
            standing = await self.standing_of(node_id)
            if standing is not None and self.concerns(standing):
                await self._look(node_id)

    async def look(self) -> None:
        """Every node that is not at rest; called every second."""
        for life in self.ward.all():
            untold = life.node_id in self._owed or (life.is_out and life.node_id not in self._told)
            if untold or not life.at_rest:
                await self._look(life.node_id)
        self._figures.show(self.ward.phases(), str(self.ward.breaker.state))

    async def _look(self, node_id: str) -> None:
        try:
            await self.handle(node_id, NodeLooked())
        except ServiceError as error:
            log.warning("node_not_tended", node_id=node_id, error=str(error))

    def concerns(self, standing: NodeStanding) -> bool:
        """Whether a standing means anything for the care of its node."""
        if standing.fit is Health.BAD or self.ward.get(standing.node_id) is not None:
            return True
        return known_bad(standing.node_id, standing, self.ward.bad) is not None

    async def handle(self, node_id: str, event: NodeEvent, cause_id: str = "") -> tuple[Reason, ...]:
        """Decide on one event; returns, with the reasons, when everything is written, published and told to the gangs.

        Raises:
            TransientError: not all of it could be done; the event may be handed in again.
            PermanentError: the node's record is unreadable, or a defect.
        """
        async with self._lock:
            for _ in range(LOSSES_MAX):
                try:
                    reasons = await self._round(node_id, event, cause_id)
                    break
                except CompareAndSetLost:
                    await self._reload(node_id)
                except TransientError:
                    await self._reload(node_id)
                    raise
            else:
                raise TransientError(f"record of {node_id} was overtaken {LOSSES_MAX} times in a row")
        await self._tell_gangs(node_id)
        await self._evict(node_id)
        return reasons

    async def standing_of(self, node_id: str) -> NodeStanding | None:
        """As health-ingest keeps it; one that cannot be read says nothing."""
        try:
            return await self._standings.load(node_id)
        except PermanentError as error:
            log.error("node_standing_unreadable", node_id=node_id, error=str(error))
            return None

    def is_known(self, node_id: str) -> bool:
        """A host role told of it, a job has an agent there, or it has a record."""
        return self.ward.knows(node_id) or bool(self._where.jobs_on(node_id))

    def occupied_by(self, node_id: str) -> tuple[str, ...]:
        """Jobs that have ranks on a node, or may."""
        gangs = ((job_id, self._advance.gang_of(job_id)) for job_id in self._where.jobs_on(node_id))
        return tuple(job_id for job_id, gang in gangs if gang is not None and may_have_ranks(gang, node_id))

    # ---------------------------------------------------------------------------------------------- one decision

    async def _round(self, node_id: str, event: NodeEvent, cause_id: str) -> tuple[Reason, ...]:
        if not self.ward.is_readable(node_id):
            raise PermanentError(f"the record of {node_id} cannot be read; nothing is done to it")
        self.ward.know(self._where.nodes())
        done = await self._decide(node_id, event, cause_id)
        if done.durable:
            await self.ward.save(done.life)
            self._failpoints.reach("care_after_persist")
            await self.ward.save_breaker(done.breaker)
        life = self.ward.get(node_id)
        if life is not None and life.pending:
            await self._publisher.publish(life)
            self._failpoints.reach("care_after_publish")
            await self.ward.save(replace(life, pending=()))
        return done.reasons

    async def _decide(self, node_id: str, event: NodeEvent, cause_id: str) -> Tended:
        standing = await self.standing_of(node_id)
        around = Around(
            census=self.ward.census(),
            occupied_by=self.occupied_by(node_id),
            standing=standing,
            bad=known_bad(node_id, standing, self.ward.bad),
            pool=self._has_pool,
            told=node_id in self._told,
        )
        now = self._clock.now()
        try:
            done = tend(
                self.ward.begin(node_id, now),
                event,
                now=now,
                policy=self.policy,
                around=around,
                breaker=self.ward.breaker,
                cause_id=cause_id,
            )
        except (IllegalMove, AssertionError) as error:
            # A defect of ours. One node is not tended; the others are.
            log.exception("care_failed", node_id=node_id, what=type(event).__name__)
            raise IllegalTransition(f"{type(event).__name__} on node {node_id}: {error}") from error
        for reason in done.reasons:
            say = log.debug if reason.rule_id.startswith(QUIET_RULES) else log.info
            say(reason.rule_id, node_id=node_id, phase=str(done.life.phase), reason=reason.sentence)
        if done.breaker.state is not self.ward.breaker.state and done.breaker.reason is not None:
            log.warning("breaker_moved", state=str(done.breaker.state), reason=done.breaker.reason.sentence)
        return done

    async def _reload(self, node_id: str) -> None:
        try:
            await self.ward.reload(node_id)
            await self.ward.reload_breaker()
        except TransientError as error:
            log.warning("node_life_not_reloaded", node_id=node_id, error=str(error))

    async def _evict(self, node_id: str) -> None:
        """Jobs that still have ranks there are told until when; again and again, for they may have begun anew."""
        life = self.ward.get(node_id)
        if life is None or life.phase is not NodePhase.DRAINING or life.evict_by is None:
            return
        withdrawn = NodeWithdrawn(node_id=node_id, by=life.evict_by, sentence=life.reason.sentence[:1_000])
        for job_id in self.occupied_by(node_id):
            await self._advance.handle(job_id, withdrawn)

    async def _tell_gangs(self, node_id: str) -> None:
        """Every gang with an agent there learns what the node's life means for it."""
        life = self.ward.get(node_id)
        if await self._book.overlay(node_id, fit_of_life(life, dry_run=self.policy.dry_run)):
            self._owed.add(node_id)
        is_out = life is not None and life.is_out
        if not is_out:
            self._told.discard(node_id)
        if node_id not in self._owed and (not is_out or node_id in self._told):
            return
        for job_id in self._where.jobs_on(node_id):
            await self._advance.handle(job_id, NodeStandingSeen(node_id=node_id))
        self._owed.discard(node_id)
        if is_out:
            self._told.add(node_id)
