"""The promises, each as a small class that watches and says when one is broken. None looks at how it is kept.

What they compare comes from the world itself (who runs what, what lies on a disk) and from the written records and
messages, never from a decision that is to be checked.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sim_events import FaultDone, GangWritten, LifeWritten, MessageStored, Obeyed, RanksStarted, Saved, SimEvent

from fault_contracts.commands import Command, EndJob, LeaderEpoch, StartWorkers, StopWorkers
from fault_contracts.envelope import seal
from fault_contracts.hardware import NodeStandingChanged
from fault_contracts.node_actions import OrderNodeAction
from fault_contracts.payload import Health
from fault_contracts.preemption import RequestCheckpoint
from fault_contracts.registry import Stream
from recovery_planner.domain.invariants import violations
from recovery_planner.domain.member import Standing

if TYPE_CHECKING:
    from sim_world import World


class Checker:
    """A promise. `saw` is called after every event, `at_rest` when the faults are over and everything is quiet."""

    name = ""
    promise = ""

    def __init__(self, world: World) -> None:
        self.world = world
        self.found: list[str] = []

    def saw(self, event: SimEvent) -> None:
        """Something happened."""

    def at_rest(self) -> None:
        """Nothing happens any more."""

    def broken(self, text: str) -> None:
        """The promise is not kept."""
        self.found.append(text)


class OneStart(Checker):
    """No rank is started twice."""

    name = "one_start"
    promise = "no rank is started twice for one topology_version"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._by: dict[tuple[str, int, int], str] = {}

    def saw(self, event: SimEvent) -> None:
        """See Checker."""
        if not isinstance(event, RanksStarted):
            return
        for rank in event.ranks:
            before = self._by.setdefault((event.job, event.version, rank), event.instance_id)
            if before != event.instance_id:
                self.broken(f"rank {rank} of {event.job} {event.version}: {before}, then {event.instance_id}")


class OneTopology(Checker):
    """Ranks of two generations never run side by side, but on nodes that were given up."""

    name = "one_topology"
    promise = "one topology at a time: nobody starts while a member still runs an older generation"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._given_up: dict[tuple[str, str], int] = {}

    def saw(self, event: SimEvent) -> None:
        """See Checker."""
        if isinstance(event, GangWritten):
            for member in event.gang.members.values():
                if member.standing in (Standing.LOST, Standing.LEFT):
                    self._given_up[event.gang.job_id, member.node_id] = event.gang.table.topology_version
        elif isinstance(event, RanksStarted):
            for other in self.world.agents_of(event.job):
                if other.node_id == event.node_id or not other.ranks or other.version in (0, event.version):
                    continue
                gang = self.world.gangs.gangs[event.job]
                known = gang.members.get(other.node_id)
                fenced = other.version <= self._given_up.get((event.job, other.node_id), 0)
                if known is not None and known.instance_id == other.instance_id and not fenced:
                    self.broken(f"{event.node_id} starts {event.version}, {other.node_id} still runs {other.version}")


class Confirmed(Checker):
    """A start names only what every rank has on disk, and nobody has begun to overwrite."""

    name = "confirmed_step"
    promise = "no start from a step that not every rank confirmed"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._saved: dict[tuple[str, int, int], set[int]] = defaultdict(set)
        self._from: dict[tuple[str, int], int] = {}
        self._size: dict[tuple[str, int], int] = {}

    def saw(self, event: SimEvent) -> None:
        """See Checker."""
        if isinstance(event, Saved):
            self._saved[event.job, event.version, event.step].add(event.rank)
        elif isinstance(event, RanksStarted):
            self._from[event.job, event.version] = event.step
            self._size[event.job, event.version] = self.world.agents[event.node_id].table.world_size
            if event.step and not self._is_whole(event):
                self.broken(f"{event.job} {event.version} starts from step {event.step}")

    def _is_whole(self, start: RanksStarted) -> bool:
        for (job, version, step), ranks in self._saved.items():
            if (
                (job, step) != (start.job, start.step)
                or version >= start.version
                or len(ranks) < self._size[job, version]
            ):
                continue
            behind = [
                v for (j, v), begun in self._from.items() if j == job and version < v < start.version and begun < step
            ]
            if not behind:
                return True
        return False


_VERBS: dict[type[Command], int] = {StartWorkers: 0, RequestCheckpoint: 1, StopWorkers: 2, EndJob: 3}


class Fenced(Checker):
    """Commands are obeyed in their order, whatever the network makes of it."""

    name = "fence"
    promise = "no command is obeyed after a newer one, and none twice"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._newest: dict[str, tuple[int, ...]] = {}

    def saw(self, event: SimEvent) -> None:
        """See Checker."""
        if not isinstance(event, Obeyed):
            return
        fence = event.command.fence
        point = (fence.topology_version, _VERBS[type(event.command)], fence.attempt, fence.epoch)
        newest = self._newest.get(event.node_id, ())
        if point < newest or (point == newest and not event.again):
            self.broken(f"{event.node_id} obeys {type(event.command).__name__} {point} after {newest}")
        self._newest[event.node_id] = max(point, newest)


class OneLeader(Checker):
    """The server keeps a planner that no longer leads from commanding."""

    name = "one_leader"
    promise = "every stored command is of the newest epoch"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._epoch = 0

    def saw(self, event: SimEvent) -> None:
        """See Checker."""
        if not isinstance(event, MessageStored):
            return
        payload = event.envelope.data
        if isinstance(payload, LeaderEpoch):
            self._epoch = event.sequence
        elif isinstance(payload, Command) and payload.fence.epoch != self._epoch:
            self.broken(f"{type(payload).__name__} of epoch {payload.fence.epoch}, the newest is {self._epoch}")


class RecordFirst(Checker):
    """State and its effects are one record."""

    name = "record_first"
    promise = "nothing is published that no gang record owes, and all that one owes is published"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._owed: dict[str, tuple[Stream, str]] = {}

    def saw(self, event: SimEvent) -> None:
        """See Checker."""
        if isinstance(event, GangWritten):
            gang = event.gang
            for effect in gang.pending:
                envelope = seal(
                    effect.payload,
                    source="",
                    cause_id=f"{gang.job_id}/{effect.run or gang.born_at.isoformat()}",
                    time=self.world.clock.now(),
                    ordinal=effect.seq,
                )
                stream = Stream.CONTROL if isinstance(effect.payload, Command) else Stream.JOURNAL
                self._owed[envelope.id] = (stream, f"{type(effect.payload).__name__} {effect.seq} of {gang.job_id}")
        elif isinstance(event, LifeWritten):
            for effect in event.life.pending:
                envelope = seal(
                    effect.payload,
                    source="",
                    cause_id=f"{event.life.node_id}/care",
                    time=self.world.clock.now(),
                    ordinal=effect.seq,
                )
                stream = Stream.CONTROL if isinstance(effect.payload, OrderNodeAction) else Stream.JOURNAL
                what = f"{type(effect.payload).__name__} {effect.seq} about {event.life.node_id}"
                self._owed[envelope.id] = (stream, what)
        elif isinstance(event, MessageStored):
            is_command = isinstance(event.envelope.data, Command | OrderNodeAction)
            if (is_command or event.stream == Stream.JOURNAL) and event.envelope.id not in self._owed:
                self.broken(f"{type(event.envelope.data).__name__} was published and stands in no record")

    def at_rest(self) -> None:
        """See Checker."""
        for message_id, (stream, what) in self._owed.items():
            if not self.world.broker.knows(stream, f"local/{message_id}"):
                self.broken(f"{what} was decided and never published")


class Budgets(Checker):
    """Restarts stay inside the job's budget."""

    name = "budget"
    promise = "no more restarts inside the window than the job allows"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._at: dict[tuple[str, datetime], list[datetime]] = defaultdict(list)

    def saw(self, event: SimEvent) -> None:
        """See Checker."""
        if not isinstance(event, GangWritten) or event.before is None:
            return
        before, gang = event.before, event.gang
        if gang.restart_count <= before.restart_count or (gang.incident is not None and gang.incident.by_notice):
            return
        plan, now = self.world.plans[gang.job_id], self.world.clock.now()
        times = self._at[gang.job_id, gang.born_at]  # a job that ended and comes again is another run
        times.append(now)
        policy = gang.spec.policy
        allowed = plan.restarts if policy is None or policy.restarts_max is None else policy.restarts_max
        if self.world.cluster is not None and self.world.cluster.jobs.restarts_max is not None:
            allowed = min(allowed, self.world.cluster.jobs.restarts_max)
        window_s = plan.window_s if policy is None or policy.window_s is None else policy.window_s
        inside = [at for at in times if at > now - timedelta(seconds=window_s)]
        if len(inside) > allowed:
            self.broken(f"{gang.job_id}: {len(inside)} restarts in {window_s:g} s, {allowed} are allowed")


class Innocent(Checker):
    """What a script did costs no machine."""

    name = "user_fault"
    promise = "no node is given up for a fault of the user"
    _OF_MACHINES = ("xid", "verdict", "lose node", "cut off", "kill agent", "notice", "fail start", "leave")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._suspect: set[str] = set()

    def saw(self, event: SimEvent) -> None:
        """See Checker."""
        if isinstance(event, FaultDone) and event.verb in self._OF_MACHINES:
            self._suspect.add(event.hit)
        elif isinstance(event, GangWritten):
            for member in event.gang.members.values():
                if member.standing is Standing.CONDEMNED and not self._is_suspect(member.node_id):
                    why = member.blamed or member.held
                    self.broken(f"{member.node_id} is condemned ({why}), and nothing ever was the matter with it")
        elif isinstance(event, LifeWritten) and event.life.is_out and not self._is_suspect(event.life.node_id):
            self.broken(f"{event.life.node_id} is {event.life.phase}, and nothing ever was the matter with it")

    def _is_suspect(self, node_id: str) -> bool:
        """What a cloud delivers goes through the gate, and may be a bad machine under another name."""
        return node_id in self._suspect or node_id.startswith("cloud-")


class Listed(Checker):
    """A node with a device that is held gets no ranks, once that has had time to get about."""

    name = "listed_device"
    promise = "a listed device never re-enters"
    KNOWN_AFTER_S = 60.0
    """A dropped message comes again after 30 s; then it is handled."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._bad_since: dict[str, float] = {}

    def saw(self, event: SimEvent) -> None:
        """See Checker."""
        now_s = self.world.clock.monotonic_s()
        if isinstance(event, MessageStored) and isinstance(event.envelope.data, NodeStandingChanged):
            told = event.envelope.data
            if told.standing.fit is Health.BAD:
                self._bad_since.setdefault(told.node_id, now_s)
            else:
                self._bad_since.pop(told.node_id, None)
        if not isinstance(event, GangWritten) or event.before is None:
            return
        if event.gang.table.topology_version == event.before.table.topology_version:
            return
        for node_id in event.gang.nodes:
            if now_s - self._bad_since.get(node_id, now_s) > self.KNOWN_AFTER_S:
                self.broken(f"{node_id} gets ranks {now_s - self._bad_since[node_id]:.0f} s after it was listed")


class Sound(Checker):
    """What is written can be read and acted on by anybody."""

    name = "record"
    promise = "every written gang record is sound, and versions only grow"

    def saw(self, event: SimEvent) -> None:
        """See Checker."""
        if isinstance(event, GangWritten):
            for text in violations(event.gang):
                self.broken(f"{event.gang.job_id}: {text}")
            before = event.before
            if before is not None and before.table.topology_version > event.gang.table.topology_version:
                self.broken(f"{event.gang.job_id} goes back to version {event.gang.table.topology_version}")
