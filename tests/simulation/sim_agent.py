"""An agent as the planner sees it: node_agent's own fence, phases and dead-man on simulated ranks and a lossy bus.

What is left out of the real one: processes and sockets.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sim_events import Obeyed, RanksStarted
from sim_in_place import InPlace
from sim_reports import Reports

from fault_contracts.agent import AgentPhase
from fault_contracts.commands import Command, EndJob, StartWorkers, StopMode, StopWorkers
from fault_contracts.envelope import Envelope, seal
from fault_contracts.payload import Payload
from fault_contracts.preemption import RequestCheckpoint
from fault_contracts.rank_rows import rows_of
from node_agent.domain import agent_state, dead_man, fence
from node_agent.domain.agent_state import AgentEvent
from node_agent.domain.planner_clock import PlannerClock, heard
from service_kit.errors import TransientError
from service_kit.ports import Delivery
from service_kit.testing.memory_bus import MemoryBus
from training_topology.identity import NodeId
from training_topology.topology import RankTable, apply_rows

if TYPE_CHECKING:
    from sim_world import World

COMMANDS: tuple[type[Command], ...] = (StopWorkers, StartWorkers, EndJob, RequestCheckpoint)
BEAT_S = 2.0
LOOK_S = 5.0
DEAD_MAN = dead_man.DeadManPolicy(silence_s_max=60.0, on_lost=dead_man.PlannerLost.KEEP)


@dataclass(slots=True)
class Disk:
    """What outlives the agent's process: its command journal and its outbox."""

    newest: fence.FencePoint = fence.NOTHING_SEEN
    journal: dict[str, tuple[str, Payload | None]] = field(default_factory=dict)
    outbox: deque[Envelope[Any]] = field(default_factory=deque)
    sent: int = 0


class SimAgent:
    """One life of an agent. `ranks`: global rank → `run`, `dead`, `hung` or `done`."""

    def __init__(self, world: World, job: str, node_id: str, life: int, disk: Disk) -> None:
        self.world, self.job, self.node_id, self.life, self.disk = world, job, node_id, life, disk
        self.spec = world.specs[job]
        self.instance_id = f"{node_id}/{life}"
        self.bus = MemoryBus(world.broker, name=node_id)
        self.phase = AgentPhase.INIT
        self.table = RankTable(topology_version=0)
        self.version_seen = 0
        self.version = 0
        self.ranks: dict[int, str] = {}
        self.from_step = 0
        self.save_at: int | None = None
        self.port = 1_024 + 1_000 * life
        self.deaths = 0
        self.fail_starts = 0
        self.clock_off_s = 0.0
        self.planner_clock: PlannerClock | None = None
        self.dead = False
        self.leaves_at_s: float | None = None
        self.in_place = InPlace(self)
        self.say = Reports(self)
        self._past = 0
        self._heard_s = 0.0
        self._silent = False
        self._lock = asyncio.Lock()
        self._to_send = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    # ------------------------------------------------------------------------------------------------ its life

    def now(self) -> datetime:
        """The wall clock of this machine, which may be wrong."""
        return self.world.clock.now() + timedelta(seconds=self.clock_off_s)

    def begin(self) -> None:
        """Start the process."""
        self._heard_s = self.world.clock.monotonic_s()
        self._spawn(self._attend())

    def kill(self) -> None:
        """kill -9: the ranks go with it."""
        self.dead, self.ranks, self.version = True, {}, 0
        self.bus.kill()
        for task in self._tasks:
            task.cancel()

    def leave(self, why: str) -> None:
        """Told to go: the ranks end, and it says so as long as the bus is there."""
        if self.dead or self.leaves_at_s is not None:
            return
        self.leaves_at_s = self.world.clock.monotonic_s()
        self.ranks, self.version = {}, 0
        self.advance(AgentEvent.LEAVE)
        self.say.left(why)
        self._spawn(self._end_when_told())

    @property
    def is_leaving(self) -> bool:
        """It takes no part any more."""
        return self.dead or self.leaves_at_s is not None

    def reconnected(self) -> None:
        """The bus is back."""
        if not self.is_leaving and self.phase is not AgentPhase.INIT:
            self.say.reported()
            self._spawn(self._catch_up())

    def send(self, payload: Payload) -> None:
        """Into the outbox."""
        disk = self.disk
        disk.sent += 1
        disk.outbox.append(
            seal(payload, source=f"/{self.node_id}", cause_id=self.node_id, time=self.now(), ordinal=disk.sent)
        )
        self._to_send.set()

    def _spawn(self, work: Any) -> None:
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    async def _attend(self) -> None:
        bus = self.bus
        await self._until_there(lambda: bus.listen(messages=COMMANDS, handler=self._pushed, key=self.job))
        await self._until_there(lambda: bus.answer(what="ping", key=self.node_id, reply=self._pong))
        found = await self._until_there(lambda: bus.last_commands(key=self.job, messages=COMMANDS))
        self._past = max((each.stream_sequence or 0 for each in found), default=0)
        self._spawn(self._send_all())
        self.advance(AgentEvent.CONNECTED)
        self.say.reported()
        for loop in (self._beat(), self._look(), self._watch_planner()):
            self._spawn(loop)

    async def _until_there(self, call: Any) -> Any:
        while True:
            try:
                return await call()
            except TransientError:
                await self.world.clock.sleep(1.0)

    async def _send_all(self) -> None:
        while True:
            while self.disk.outbox:
                try:
                    await self.bus.publish(self.disk.outbox[0])
                except TransientError:
                    await self.world.clock.sleep(0.2)
                else:
                    self.disk.outbox.popleft()
            self._to_send.clear()
            await self._to_send.wait()

    async def _end_when_told(self) -> None:
        while self.disk.outbox:
            await self.world.clock.sleep(0.1)
        self.dead = True
        self.bus.kill()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()

    async def _beat(self) -> None:
        while not self.is_leaving:
            try:
                await self.bus.publish(self.say.heartbeat())
            except TransientError:
                pass  # the next one replaces it
            await self.world.clock.sleep(BEAT_S)

    async def _look(self) -> None:
        while not self.is_leaving:
            await self.world.clock.sleep(LOOK_S)
            await self._catch_up()

    async def _catch_up(self) -> None:
        try:
            found = await self.bus.last_commands(key=self.job, messages=COMMANDS)
        except TransientError:
            return
        fresh = [each for each in found if (each.stream_sequence or 0) > self._past]
        ordered = sorted((each.envelope for each in fresh), key=lambda envelope: fence.point_of(envelope.data))
        first = max((n for n, each in enumerate(ordered) if not isinstance(each.data, RequestCheckpoint)), default=0)
        for envelope in ordered[first:]:
            await self._handle(envelope, pushed=False)

    async def _watch_planner(self) -> None:
        while not self.is_leaving:
            await self.world.clock.sleep(10.0)
            now_s = self.world.clock.monotonic_s()
            if now_s - self._heard_s >= 10.0:
                try:
                    if await self.bus.ask(what="planner", key="leader", timeout_s=2.0) is not None:
                        self._heard_s = now_s
                except TransientError:
                    pass  # that is the silence that is measured
            await self._stand_by()

    async def _stand_by(self) -> None:
        async with self._lock:
            kinds = {AgentPhase.RUNNING: dead_man.Ranks.TRAIN, AgentPhase.FAULTED: dead_man.Ranks.BROKEN}
            if self.in_place.on and self.ranks:
                kinds[AgentPhase.READY] = dead_man.Ranks.BROKEN
            decided = dead_man.step(
                was_silent=self._silent,
                silent_s=self.world.clock.monotonic_s() - self._heard_s,
                ranks=kinds.get(self.phase, dead_man.Ranks.NONE),
                policy=DEAD_MAN,
            )
            self._silent = decided.silent
            if decided.act is dead_man.Act.STOP:
                version = self.version
                await self._stop_group(AgentEvent.STAND_DOWN)
                self.say.acted_alone(version, decided.reason)
            elif decided.news and not decided.silent:
                self.say.reported()

    async def _pong(self, _question: bytes) -> bytes:
        return b"{}"

    # ------------------------------------------------------------------------------------------- its commands

    async def _pushed(self, delivery: Delivery) -> None:
        self._heard_s = self.world.clock.monotonic_s()
        await self._handle(delivery.envelope, pushed=True)

    async def _handle(self, envelope: Envelope[Any], *, pushed: bool) -> None:
        command: Command = envelope.data
        async with self._lock:
            if self.is_leaving:
                return
            known = self.disk.journal.get(command.operation_id)
            now_s = self.world.clock.monotonic_s()
            self.planner_clock = heard(self.planner_clock, command, sent_at=envelope.time, monotonic_s=now_s)
            now = self.planner_clock.now(now_s)
            verdict = fence.judge(command, newest=self.disk.newest, done_before=known is not None, now=now)
            match verdict.ruling:
                case fence.Ruling.OBEY:
                    await self._obey(command, again=False)
                case fence.Ruling.REPEAT:
                    assert known is not None, "a repeat is a command that the journal has"
                    await self._repeat(command, known, pushed=pushed, now=now)
                case fence.Ruling.REFUSE:
                    if pushed:
                        self.say.refused(command, verdict.code, verdict.reason.sentence)

    async def _repeat(
        self, command: Command, known: tuple[str, Payload | None], *, pushed: bool, now: datetime
    ) -> None:
        instance_id, outcome = known
        if instance_id != self.instance_id:
            over = isinstance(command, StartWorkers | RequestCheckpoint) or not fence.owed(command, self.disk.newest)
            if not over and command.expires_at > now:
                await self._obey(command, again=True)
        elif pushed and outcome is not None:
            self.send(outcome)

    async def _obey(self, command: Command, *, again: bool) -> None:
        self.world.saw(Obeyed(node_id=self.node_id, command=command, again=again))
        self.disk.newest = max(self.disk.newest, fence.point_of(command))
        self.disk.journal[command.operation_id] = (self.instance_id, None)
        try:
            outcome = await self._carry_out(command)
        except agent_state.TransitionRefused as error:
            outcome = self.say.refusal(command, "illegal_transition", str(error))
        if outcome is not None and not self.is_leaving:
            self.disk.journal[command.operation_id] = (self.instance_id, outcome)
            self.send(outcome)

    async def _carry_out(self, command: Command) -> Payload | None:
        version = command.fence.topology_version
        if isinstance(command, StopWorkers):
            standing: tuple[int, ...] = ()
            if command.mode is StopMode.IN_PROCESS and self.in_place.on:
                standing = await self.in_place.to_barrier(command)
            else:
                await self._stop_group(AgentEvent.STOP)
            self.version_seen = max(self.version_seen, version)
            return self.say.stopped(command, standing)
        if isinstance(command, StartWorkers):
            return await self._start(command, version)
        if isinstance(command, RequestCheckpoint):
            self.save_at = command.at_step
            return None
        self.leave("the job ended")
        return None

    async def _stop_group(self, event: AgentEvent) -> None:
        self.advance(event)
        if self.ranks:
            await self.world.clock.sleep(self.world.dice.uniform(0.01, 0.6))
        self.ranks, self.version, self.save_at = {}, 0, None
        if event is not AgentEvent.FALL_BACK:
            self.port += 1
        if not self.is_leaving:
            self.advance(AgentEvent.STOPPED)
        self.in_place.forget()

    async def _start(self, command: StartWorkers, version: int) -> Payload | None:
        if command.base_version not in (0, self.table.topology_version):
            return self.say.refusal(command, "table_gap", f"holds {self.table.topology_version}")
        base = self.table if command.base_version else RankTable(topology_version=0)
        try:
            self.table = apply_rows(base, topology_version=version, nnodes=command.nnodes, rows=rows_of(command))
        except ValueError as error:
            return self.say.refusal(command, "table_gap", str(error))
        self.version_seen = max(self.version_seen, version)
        own = tuple(map(int, self.table.ranks_of(NodeId(self.node_id))))
        if not own:
            if self.ranks:
                await self._stop_group(AgentEvent.STOP)
            return None
        kept = self.in_place.kept(command)
        if not kept and self.ranks and self.in_place.on:
            await self._stop_group(AgentEvent.FALL_BACK)
            if self.is_leaving:
                return None
        self.advance(AgentEvent.START)
        nproc = self.spec.nproc_per_node
        survivors = tuple(rank for rank in own if rank % nproc in kept)
        self.in_place.inside = set(survivors)
        self.from_step = 0 if command.checkpoint is None else command.checkpoint.step
        self.version, self.ranks, self.save_at, self.deaths = version, {}, None, 0
        # A rank runs from the moment it is forked, long before the node can say that all of them do.
        self.world.saw(
            RanksStarted(
                job=self.job,
                node_id=self.node_id,
                instance_id=self.instance_id,
                version=version,
                ranks=own,
                step=self.from_step,
            )
        )
        self.ranks = dict.fromkeys(own, "run")
        self.in_place.begin(version, set(own) - set(survivors))
        await self.world.clock.sleep(self.world.dice.choice((0.05, 0.1, 0.3, 1.0, 3.0)))
        if self.is_leaving:
            return None
        if self.fail_starts:
            self.fail_starts -= 1
            await self._stop_group(AgentEvent.START_FAILED)
            return self.say.refusal(command, "start_failed", "no such file or directory")
        self.world.training.joined(self)
        return self.say.started(command, own, survivors)

    def advance(self, event: AgentEvent) -> None:
        """Go where node_agent's table says, or refuse."""
        self.phase = agent_state.step(self.phase, event, table=self.in_place.table).after

    # ---------------------------------------------------------------------------------------------- its ranks

    def rank_ends(self, rank: int, state: str) -> bool:
        """A rank is dead or hangs; False: it does not run here, or what it died of has been told."""
        before = self.ranks.get(rank)
        standing = self.in_place.on and self.phase in (AgentPhase.READY, AgentPhase.STOPPING)
        if before not in ("run", "hung", "faulted", "barrier"):
            return False
        if not standing and self.phase not in (AgentPhase.RUNNING, AgentPhase.FAULTED):
            return False
        self.ranks[rank] = state
        if before == "faulted":
            return False
        if self.phase is not AgentPhase.STOPPING:
            self.advance(AgentEvent.RANK_FAILED)
        return True

    @property
    def ranks_version(self) -> int:
        """The generation of the ranks that are there, at the barrier too."""
        return self.version or self.in_place.version

    def all_done(self) -> None:
        """Every rank ended with 0."""
        self.ranks = dict.fromkeys(self.ranks, "done")
        self.in_place.inside.clear()
        self.advance(AgentEvent.ALL_COMPLETED)
        self.say.completed()
