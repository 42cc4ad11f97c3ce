"""Find out which agents are gone: heartbeats tell that one is there, pings tell that one is not.

Silence is unknown. An agent is lost only when the server itself knows that nobody listens on its subject for a while,
or when it has been silent for much longer than that. While the gang's steps go on, its ranks train, whatever has become
of its way to the bus: a step needs all ranks, and a restart would cost what it is to save.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta

from fault_contracts.agent import AgentHeartbeat
from recovery_planner.application.advance_gang import AdvanceGang
from recovery_planner.domain.gang import Gang, Phase
from recovery_planner.domain.member import Standing, is_idle
from recovery_planner.domain.membership import AgentLost
from service_kit.deadlines import Deadlines
from service_kit.errors import PermanentError, TransientError
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock, Delivery

PROBES_MAX = 256
"""Pings in flight at once; 12,500 agents are through in a few rounds."""
ALARM_MIN_S = 0.001
"""Deadlines have microseconds and our subtraction has more digits: an alarm must not ring early, again and again."""
SPARES_PROBED_MAX = 8
"""Spares looked at when an incident opens, in the order in which they would be taken."""

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long an agent may be quiet; reasons for the defaults stand in the settings."""

    heartbeat_missing_s: float = 6.0
    heartbeat_lost_s: float = 15.0
    agent_absent_grace_s: float = 1.5
    ping_timeout_s: float = 1.0
    ping_every_s: float = 0.1
    recheck_s: float = 0.5
    reconnect_grace_s: float = 10.0
    silent_training_max_s: float = 600.0


@dataclass(slots=True, kw_only=True)
class _Watched:
    """One agent of one job."""

    job_id: str
    node_id: str
    instance_id: str
    seen_s: float
    awaited: bool = False
    probe: asyncio.Task[None] | None = None
    gone: bool = False
    held: bool = False
    """It is silent and its gang trains; said once."""


@dataclass(slots=True, kw_only=True)
class _Job:
    watched: dict[str, _Watched] = field(default_factory=dict)
    strays: dict[str, str] = field(default_factory=dict)
    """node → instance of agents that the gang would take as a spare if they said that they are idle."""
    members: object = None
    phase: Phase | None = None
    step: tuple[int, int] = (0, -1)
    """Generation and step that the gang was last seen to do."""
    stepped_s: float = float("-inf")
    """When that was news."""


class WatchAgents:
    """A GangWatcher; hands `AgentLost` to the gang."""

    def __init__(self, *, advance: AdvanceGang, bus: Bus, clock: Clock, patience: Patience) -> None:
        self._advance = advance
        self._bus = bus
        self._clock = clock
        self._patience = patience
        self._jobs: dict[str, _Job] = {}
        self._alarms = Deadlines(clock)
        self._keys: dict[str, _Watched] = {}
        self._slots = asyncio.Semaphore(PROBES_MAX)
        self._unsure_until_s = float("-inf")

    # --------------------------------------------------------------------------------------------- what is told

    async def heard(self, delivery: Delivery) -> None:
        """A heartbeat."""
        beat: AgentHeartbeat = delivery.envelope.data
        job = self._jobs.get(beat.job_id)
        if job is None:
            return
        watched = job.watched.get(beat.node_id)
        if watched is not None and watched.instance_id == beat.instance_id:
            watched.seen_s = self._clock.monotonic_s()
        if job.strays.get(beat.node_id) == beat.instance_id and is_idle(beat.phase):
            del job.strays[beat.node_id]  # once is enough; a decision that changes the members finds the strays anew
            try:
                await self._advance.handle(beat.job_id, beat, delivery.envelope.id)
            except TransientError as error:
                log.warning("stray_not_recorded", node_id=beat.node_id, error=str(error))
                job.strays[beat.node_id] = beat.instance_id  # the next heartbeat tries again

    async def after_reconnect(self) -> None:
        """Our own connection came back: agents need a moment for theirs, and their silence until now says nothing."""
        now_s = self._clock.monotonic_s()
        self._unsure_until_s = now_s + self._patience.reconnect_grace_s
        for watched in self._keys.values():
            watched.seen_s = now_s

    def observe(self, gang: Gang) -> None:
        """Watch whoever is present; ask at once whom the gang waits for."""
        if gang.phase is Phase.ENDED:
            self.forget(gang.job_id)
            return
        job = self._jobs.setdefault(gang.job_id, _Job())
        if job.members is not gang.members:
            self._follow_members(job, gang)
            job.members = gang.members
        order = gang.awaited
        awaited = frozenset(order)
        for node_id in order:
            if node_id in job.watched:
                self._probe(job.watched[node_id])
        if gang.phase is Phase.STOPPING and job.phase is not Phase.STOPPING:
            self._probe_spares(job, gang)
        job.phase = gang.phase
        step = (gang.table.topology_version, -1 if gang.step_now is None else gang.step_now)
        if step > job.step:
            job.step, job.stepped_s = step, self._clock.monotonic_s()
        for watched in job.watched.values():
            watched.awaited = watched.node_id in awaited

    def forget(self, job_id: str) -> None:
        """No longer our business."""
        job = self._jobs.pop(job_id, None)
        for watched in list(job.watched.values()) if job else ():
            self._drop(watched)

    async def run(self) -> None:
        """Ring when a heartbeat is overdue; until cancelled."""
        try:
            await self._alarms.run(self._overdue)
        finally:
            for job_id in list(self._jobs):
                self.forget(job_id)

    # ------------------------------------------------------------------------------------------------- watching

    def _follow_members(self, job: _Job, gang: Gang) -> None:
        job.strays = {m.node_id: m.instance_id for m in gang.members.values() if gang.is_stray(m)}
        for member in gang.members.values():
            watched = job.watched.get(member.node_id)
            here = member.is_there
            if watched is not None and (not here or watched.instance_id != member.instance_id):
                self._drop(watched)
                del job.watched[member.node_id]
                watched = None
            if watched is None and here:
                fresh = _Watched(
                    job_id=gang.job_id,
                    node_id=member.node_id,
                    instance_id=member.instance_id,
                    seen_s=self._clock.monotonic_s(),
                )
                job.watched[member.node_id] = fresh
                self._keys[_key(fresh)] = fresh
                self._arm(fresh)

    def _drop(self, watched: _Watched) -> None:
        watched.gone = True
        self._keys.pop(_key(watched), None)
        self._alarms.set(_key(watched), None)
        if watched.probe is not None and watched.probe is not asyncio.current_task():
            watched.probe.cancel()

    def _arm(self, watched: _Watched) -> None:
        quiet_s = self._clock.monotonic_s() - watched.seen_s
        wait_s = max(ALARM_MIN_S, self._patience.heartbeat_missing_s - quiet_s)
        self._alarms.set(_key(watched), self._clock.now() + timedelta(seconds=wait_s))

    async def _overdue(self, key: str) -> None:
        watched = self._keys.get(key)
        if watched is None:
            return
        if self._clock.monotonic_s() - watched.seen_s < self._patience.heartbeat_missing_s:
            self._arm(watched)
        else:
            self._probe(watched)

    def _probe_spares(self, job: _Job, gang: Gang) -> None:
        spares = [m for m in gang.members.values() if m.standing is Standing.PRESENT and not gang.is_seated(m.node_id)]
        for member in sorted(spares, key=lambda member: member.arrival)[:SPARES_PROBED_MAX]:
            self._probe(job.watched[member.node_id])

    # -------------------------------------------------------------------------------------------------- probing

    def _probe(self, watched: _Watched) -> None:
        if watched.probe is None and not watched.gone:
            watched.probe = asyncio.create_task(self._ask_until_known(watched), name=f"ping {watched.node_id}")

    async def _ask_until_known(self, watched: _Watched) -> None:
        patience = self._patience
        absent_since_s: float | None = None
        try:
            while not watched.gone:
                alive = await self._ask(watched)
                now_s = self._clock.monotonic_s()
                if alive:
                    watched.seen_s, absent_since_s = now_s, None
                    if not watched.awaited:
                        break
                    await self._clock.sleep(patience.recheck_s)
                    continue
                if alive is None or now_s < self._unsure_until_s:
                    absent_since_s = None
                    quiet_s = now_s - watched.seen_s
                    if quiet_s >= patience.heartbeat_lost_s and not self._trains_on(watched, now_s):
                        await self._lost(watched, "agent.silent", f"silent for {quiet_s:.0f} s and answers no ping")
                        break
                else:
                    absent_since_s = now_s if absent_since_s is None else absent_since_s
                    absent_s = now_s - absent_since_s
                    if absent_s >= patience.agent_absent_grace_s and not self._trains_on(watched, now_s):
                        await self._lost(watched, "agent.absent", f"has not been connected for {absent_s:.1f} s")
                        break
                await self._clock.sleep(patience.ping_every_s)
        finally:
            watched.probe = None
            if not watched.gone:
                self._arm(watched)

    def _trains_on(self, watched: _Watched, now_s: float) -> bool:
        """Whether its gang did a step since it fell silent, and not long ago: then its ranks are alive.

        The first seconds of the silence do not count: a step that was under way is told a moment after a node died.
        """
        job, patience = self._jobs[watched.job_id], self._patience
        quiet_s = now_s - watched.seen_s
        on = (
            job.phase is Phase.RUNNING
            and job.stepped_s > watched.seen_s + patience.heartbeat_missing_s
            and now_s - job.stepped_s < patience.heartbeat_lost_s
            and quiet_s < patience.silent_training_max_s
        )
        if on and not watched.held:
            log.warning("agent_silent_but_training", job_id=watched.job_id, node_id=watched.node_id, quiet_s=quiet_s)
        watched.held = on
        return on

    async def _ask(self, watched: _Watched) -> bool | None:
        """True: somebody answers. False: the server knows that nobody listens. None: unknown."""
        async with self._slots:
            try:
                reply = await self._bus.ask(what="ping", key=watched.node_id, timeout_s=self._patience.ping_timeout_s)
            except (TransientError, PermanentError) as error:
                log.debug("ping_unanswered", node_id=watched.node_id, error=str(error))
                return None
        # Another life of the agent may answer; its own report tells that, and in order.
        return reply is not None

    async def _lost(self, watched: _Watched, rule_id: str, why: str) -> None:
        event = AgentLost(
            node_id=watched.node_id,
            instance_id=watched.instance_id,
            rule_id=rule_id,
            sentence=f"the agent of {watched.node_id} {why}",
        )
        while not watched.gone:
            try:
                await self._advance.handle(watched.job_id, event)
            except TransientError as error:
                log.warning("agent_lost_not_recorded", node_id=watched.node_id, error=str(error))
                await self._clock.sleep(self._patience.recheck_s)
            except PermanentError as error:
                log.error("agent_lost_refused", node_id=watched.node_id, error=str(error))
                return
            else:
                return


def _key(watched: _Watched) -> str:
    return f"{watched.job_id}\0{watched.node_id}"
