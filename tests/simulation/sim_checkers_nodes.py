"""Promises about the lives of nodes: what is done to one, how many are out of use, what comes back, that it ends."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from sim_checkers import Checker
from sim_events import BreakerWritten, HostActs, LifeWritten, RanksStarted, SimEvent

from fault_contracts.remediation import BreakerState, NodePhase
from recovery_planner.domain.node_life import NodeLife

if TYPE_CHECKING:
    from sim_world import World

KNOWN_AFTER_S = 60.0
"""A dropped message comes again after 30 s; then it is handled."""
WAITS = (NodePhase.PROBATION, NodePhase.SUSPECT, NodePhase.DRAINING)
"""A probation takes days, the breaker may keep a suspect in use, and a job that runs the node that is to be emptied."""


def untended(world: World) -> str:
    """A node whose story has not come to an end; empty: there is none."""
    for life in world.remedies.lives.values():
        if not life.at_rest and (life.phase not in WAITS or life.pending or life.ledger_owed):
            return f"{life.node_id} is {life.phase}: {life.reason.sentence}"
    return ""


class NodeStories(Checker):
    """Liveness."""

    name = "node_story"
    promise = "once the faults are over, nothing is left to be done about any node"

    def at_rest(self) -> None:
        """See Checker."""
        if why := untended(self.world):
            self.broken(why)


class Harmless(Checker):
    """Nobody pulls a machine away from ranks that work."""

    name = "harmless"
    promise = "no reset, no boot and no return of a node with ranks"

    def saw(self, event: SimEvent) -> None:
        """See Checker."""
        if isinstance(event, HostActs) and event.action != "validate" and event.harm:
            self.broken(f"{event.action} of {event.node_id}, and {event.harm}")


class Limited(Checker):
    """Counted from the records of nodes alone, whatever the breaker's record says."""

    name = "breaker"
    promise = "no more nodes are taken, and are out of use at a time, than the breaker's policy allows"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._taken: list[datetime] = []
        self._lives: dict[str, NodeLife] = {}

    def saw(self, event: SimEvent) -> None:
        """See Checker."""
        if isinstance(event, BreakerWritten) and event.state is BreakerState.CLOSED:
            if event.before is BreakerState.HALF_OPEN:
                self._taken.clear()  # a trial went well, and counting begins anew
        elif isinstance(event, LifeWritten):
            old = self._lives.get(event.life.node_id)
            if event.life.taken_at is not None and (old is None or old.taken_at != event.life.taken_at):
                self._take(event.life)
            self._lives[event.life.node_id] = event.life

    def _take(self, life: NodeLife) -> None:
        policy = self.world.cluster
        assert policy is not None, "records of nodes are written only where there is a policy"
        limits = policy.breaker
        if policy.dry_run:
            self.broken(f"{life.node_id} is taken in a dry run")
        out = [each.node_id for each in self._lives.values() if each.counts_as_out and each.node_id != life.node_id]
        allowed = max(1, int(limits.share_max * len(self.world.hosts)))
        if len(out) >= allowed:
            self.broken(f"{life.node_id} is taken while {out} are out of use; {allowed} may be")
        now = self.world.clock.now()
        self._taken = [at for at in self._taken if at > now - timedelta(seconds=limits.window_s)]
        if not life.on_trial and len(self._taken) >= limits.nodes_max:
            self.broken(f"{life.node_id} is taken; {len(self._taken)} were in {limits.window_s:g} s")
        others = [each.node_id for each in self._lives.values() if each.on_trial and each.node_id != life.node_id]
        if life.on_trial and others:
            self.broken(f"{life.node_id} is taken on trial while {others} are")
        self._taken.append(now)


class OutOfUse(Checker):
    """By the board, which no new name changes."""

    name = "out_of_use"
    promise = "no ranks on a node that is out of use, nor on one with a board that was given up, once that is known"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._out_since: dict[str, float] = {}
        self._boards: dict[str, str] = {}

    def saw(self, event: SimEvent) -> None:
        """See Checker."""
        now_s = self.world.clock.monotonic_s()
        if isinstance(event, LifeWritten):
            life = event.life
            if life.is_out:
                self._out_since.setdefault(life.node_id, now_s)
            else:
                self._out_since.pop(life.node_id, None)
            host = self.world.hosts.get(life.node_id)
            if host is not None and any(each.startswith("board:") for each in life.listed):
                self._boards.setdefault(host.board, life.node_id)
        elif isinstance(event, RanksStarted):
            out_s = now_s - self._out_since.get(event.node_id, now_s)
            if out_s > KNOWN_AFTER_S:
                self.broken(f"{event.node_id} starts ranks {out_s:.0f} s after it went out of use")
            origin = self._boards.get(self.world.hosts[event.node_id].board, event.node_id)
            if origin != event.node_id and now_s - self.world.came_s[event.node_id] > KNOWN_AFTER_S:
                self.broken(f"{event.node_id} starts ranks on the board with which {origin} was given up")
