"""One job on one fleet under one policy, event by event: faults, recoveries, returns. It draws nothing itself."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from fault_contracts.faults import Action, Attribution
from fault_contracts.recovery_level import RecoveryLevel
from phalanx_cli.elastic_play import Sizes
from phalanx_cli.simulate.clock import NEVER_S, Clock, Look
from phalanx_cli.simulate.contestants import Contestant
from phalanx_cli.simulate.costs import Costs
from phalanx_cli.simulate.decisions import Decisions, costs_node, verdict_of
from phalanx_cli.simulate.faults import DAY_S, WATCHED_S, Fault, Need
from phalanx_cli.simulate.fleet import Fleet, Machine, Place
from phalanx_cli.simulate.listing import Listing
from phalanx_cli.simulate.node_life import Absence, repaired
from phalanx_cli.simulate.outcome import Outcome
from phalanx_cli.simulate.tending import Step, Tending, Turn, asked

VERDICT_DRAWS = 8
ATTEMPTS_MAX = 64
"""Restarts for one fault; a person comes long before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Sizes: nodes that train, nodes that stand by, and for how long."""

    nodes: int
    spares: int
    days: float


def simulate(policy: Contestant, costs: Costs, cluster: Cluster, faults: Sequence[Fault]) -> Outcome:
    """Play a trace through."""
    return _Run(policy, costs, cluster, faults).play()


class _Run:
    def __init__(self, policy: Contestant, costs: Costs, cluster: Cluster, faults: Sequence[Fault]) -> None:
        self._policy = policy
        self._costs = costs
        self._end_s = cluster.days * DAY_S
        self._fleet = Fleet(cluster.nodes, cluster.spares)
        self._decisions = Decisions(policy.recovery, cluster.nodes)
        self._sizes = Sizes(policy.recovery, cluster.nodes)
        self._size = self._full = cluster.nodes
        self._shrink_s = NEVER_S
        self._regrow_s = 0.0
        """No planned regrow before."""
        self._stop_s = NEVER_S
        """The checkpoint at which it stops to grow."""
        self._now_s = 0.0
        self._listing = Listing()
        known = cluster.nodes + cluster.spares
        self._tending = None if policy.care is None else Tending(policy.care, costs, known)
        self._out = Outcome(policy=policy.name, span_s=self._end_s)
        self._clock = Clock(costs, self._out)
        self._empty_seats = 0
        self._ready_s = 0.0
        """All but the empty seats are ready from here on."""
        self._count = 0
        self._events: list[tuple[float, int, int, int, Fault | Absence | Turn | Look]] = []
        for fault in faults:
            self._push(fault.at_s, fault.machine, -1, fault)

    def play(self) -> Outcome:
        while self._events and self._events[0][0] < self._end_s:
            now_s, _, index, device, what = heapq.heappop(self._events)
            self._now_s, machine = now_s, self._fleet.machines[index]
            if isinstance(what, Look):
                self._look(now_s, what)
            elif isinstance(what, Absence):
                self._returned(now_s, machine, what)
            elif isinstance(what, Turn):
                if self._tending is not None:
                    self._tended(now_s, machine, self._tending.turn(machine.name, what.event, now_s))
            elif machine.place is not Place.AWAY and device in (-1, machine.device):
                self._failed(now_s, machine, what)
        self._clock.close(self._end_s, ends=True)
        for machine in self._fleet.machines:
            if machine.place is Place.AWAY:
                self._count_absence(machine, self._end_s)
        self._out.listed = self._listing.listed
        self._out.breaker_refused = 0 if self._tending is None else self._tending.refused
        return self._out

    def _push(self, at_s: float, machine: int, device: int, what: Fault | Absence | Turn | Look) -> None:
        self._count += 1
        heapq.heappush(self._events, (at_s, self._count, machine, device, what))

    # ------------------------------------------------------------------------------------------------ nodes

    def _failed(self, now_s: float, machine: Machine, fault: Fault) -> None:
        if machine.watched and fault.kind.attribution is not Attribution.USER and machine.is_watched(now_s):
            machine.watched = False
            self._out.refaults += 1
        if machine.place is Place.SEATED:
            self._interrupt(now_s, machine, fault)
        elif costs_node(fault):
            self._take_out(now_s, machine, fault)

    def _take_out(self, now_s: float, machine: Machine, fault: Fault) -> None:
        listed = False
        if self._policy.ledger and fault.kind.of_node:
            replaces = asked(fault, listed=False) is Action.REPLACE_NODE
            listed = self._listing.struck(machine.device_id, machine.name, fault.name, now_s, replaces=replaces)
        self._fleet.leave(machine)
        machine.left_s, machine.left_for = now_s, fault.name
        self._out.out_max = max(self._out.out_max, self._fleet.away)
        if self._tending is not None:
            step = self._tending.blamed(machine.name, machine.device_id, fault, now_s, listed=listed)
            self._tended(now_s, machine, step)
            return
        gone = repaired(self._policy.gate_rounds, self._costs, fault)
        self._push(now_s + gone.away_s, machine.index, machine.device, gone)

    def _tended(self, now_s: float, machine: Machine, step: Step) -> None:
        for turn in step.turns:
            self._push(turn.at_s, machine.index, -1, turn)
        if step.back is not None:
            self._push(now_s, machine.index, machine.device, step.back)

    def _count_absence(self, machine: Machine, until_s: float) -> None:
        days = (until_s - machine.left_s) / DAY_S
        self._out.node_days_lost += days
        self._out.cause(machine.left_for).node_days += days

    def _returned(self, now_s: float, machine: Machine, gone: Absence) -> None:
        self._fleet.back(machine)
        self._count_absence(machine, now_s)
        if gone.replaced and self._policy.ledger:
            self._listing.taken_out(machine.device_id, now_s)
            machine.device += 1
        self._out.listed_readmitted += self._listing.is_listed(machine.device_id)
        machine.returned_s, machine.doubt_until_s = now_s, now_s + gone.doubt_s
        machine.watched = now_s + WATCHED_S <= self._end_s
        self._out.returns += 1
        self._out.watched += machine.watched
        self._out.gate_found += gone.found
        if gone.next_fault is not None:
            self._push(now_s + gone.next_gap_s, machine.index, machine.device, gone.next_fault)
        if self._empty_seats:
            self._seat(now_s)
            self._empty_seats -= 1
            if not self._empty_seats:
                self._resume(now_s, self._policy.swap_s)
        elif self._size < self._full:
            self._push(now_s, 0, -1, Look.GROW)
            self._push(machine.doubt_until_s, 0, -1, Look.GROW)  # a node on probation is no reason to stop a gang

    def _resume(self, now_s: float, restart_s: float) -> None:
        """The wait for a node is over."""
        begin_s = max(now_s, self._ready_s, self._clock.waits_s)
        self._out.phases["wait"] += begin_s - self._clock.waits_s
        self._out.phases["restart"] += restart_s
        self._clock.up_s = begin_s + restart_s
        self._shrink_s = NEVER_S
        self._started()

    def _seat(self, now_s: float) -> bool:
        self._out.swaps += 1
        return self._fleet.take_spare(now_s) is not None

    # -------------------------------------------------------------------------------------------------- job

    def _interrupt(self, now_s: float, machine: Machine, fault: Fault) -> None:
        """Stop, ask the planner, bring the gang back; a person where nobody finds the node."""
        self._out.interruptions += 1
        lost_s = self._clock.close(now_s)
        spent, takes_out = self._attempts(now_s, fault)
        ready_s = now_s + sum(spent.values())
        if takes_out:
            self._take_out(now_s, machine, fault)
            if not self._seat(now_s):
                self._out.swaps -= 1
                self._out.short_of_spares += 1
                self._empty_seats += 1
        elif fault.follow is not None:
            self._push(ready_s + fault.follow_gap_s, machine.index, machine.device, fault.follow)
        before_s = max(now_s, self._clock.up_s)
        added_s = max(0.0, ready_s - before_s)
        if self._empty_seats:
            # Nobody trains until a machine is back; what that takes is counted when it is.
            self._ready_s = max(self._ready_s, ready_s)
            if self._clock.up_s != NEVER_S:
                self._clock.waits_s = max(ready_s, self._clock.up_s)
                self._shrink_s = self._clock.waits_s + self._wait_s()
                self._push(self._shrink_s, 0, -1, Look.SHRINK)
            self._clock.up_s = NEVER_S
        else:
            self._clock.up_s = max(self._clock.up_s, ready_s)
            self._grow()
            self._started()
        # Of a recovery within another one, only what it adds is counted.
        part = added_s / (ready_s - now_s) if ready_s > now_s else 0.0
        for phase, seconds in spent.items():
            self._out.phases[phase] += seconds * part
        tally = self._out.cause(fault.name)
        tally.faults += 1
        tally.lost_s += added_s + lost_s

    # ------------------------------------------------------------------------------------------------- size

    def _wait_s(self) -> float:
        rules, limit_s = self._sizes.rules, self._policy.recovery.capacity_wait_s
        own_s = NEVER_S if rules is None else rules.wait_s
        return own_s if limit_s is None or rules is None else min(own_s, limit_s)

    def _look(self, now_s: float, what: Look) -> None:
        if what is Look.SHRINK:
            if self._empty_seats and now_s >= self._shrink_s:
                self._shrink(now_s)
        elif self._empty_seats or self._size == self._full:
            return
        elif now_s < max(self._regrow_s, self._clock.up_s):
            self._push(max(self._regrow_s, self._clock.up_s), 0, -1, what)
        elif self._grown() == self._size:
            self._stop_s = NEVER_S  # the free nodes are not there any more
        elif now_s == self._stop_s:
            self._stop_to_grow(now_s)
        elif self._stop_s == NEVER_S:
            whole = int((now_s - self._clock.up_s) / self._clock.cycle_s) + 1
            self._stop_s = self._clock.up_s + whole * self._clock.cycle_s
            self._push(self._stop_s, 0, -1, Look.GROW)

    def _shrink(self, now_s: float) -> None:
        """Go on without those places that nobody came for, if the policy allows what is left."""
        size = self._sizes.without(self._size, self._empty_seats)
        if size is None:
            return
        self._fleet.unseat(self._size - self._empty_seats - size)
        self._size, self._empty_seats = size, 0
        self._out.shrunk += 1
        # Without a wait this is the restart that is counted with its fault.
        self._resume(now_s, self._policy.level_job_s if self._wait_s() else 0.0)

    def _grown(self) -> int:
        return self._sizes.grown(self._size, self._fleet.free(self._now_s))

    def _grow(self) -> None:
        """At a restart that happens anyway."""
        if self._size == self._full:
            return
        for _ in range(self._grown() - self._size):
            self._seat(self._now_s)
            self._size += 1

    def _stop_to_grow(self, now_s: float) -> None:
        self._clock.close(now_s)
        self._grow()
        self._out.grown += 1
        self._out.phases["restart"] += self._policy.level_job_s
        self._clock.up_s = now_s + self._policy.level_job_s
        self._started()

    def _started(self) -> None:
        """A generation begins: while it is smaller than it should be, it is looked at after its snooze."""
        rules, self._stop_s = self._sizes.rules, NEVER_S
        self._clock.share = self._size / self._full
        if rules is not None and self._size < self._full and rules.regrow:
            self._regrow_s = self._clock.up_s + rules.snooze_s
            self._push(self._regrow_s, 0, -1, Look.GROW)

    def _attempts(self, now_s: float, fault: Fault) -> tuple[dict[str, float], bool]:
        """Seconds by phase, and whether the node is taken out."""
        policy = self._policy
        spent = dict.fromkeys(("detect", "restart", "wait", "blind", "person"), 0.0)
        for attempt in range(ATTEMPTS_MAX):
            spent["detect"] += policy.detect_s[fault.kind.symptom]
            named = fault.draws[attempt % VERDICT_DRAWS] < policy.named[fault.kind.symptom]
            takes_out = named and costs_node(fault)
            attribution, action = verdict_of(fault, named=named, takes_out=takes_out)
            said = self._decisions.decide(attribution, fault.name, action, now_s + sum(spent.values()))
            self._out.restarts += 1
            if said.outcome is not None:
                self._out.given_up += 1
                self._person(spent)
                takes_out = takes_out or fault.need is not Need.RESTART
            spent["wait"] += said.wait_s
            if takes_out:
                spent["restart"] += policy.swap_s
                return spent, True
            spent["restart"] += policy.level_job_s if said.level is RecoveryLevel.JOB else policy.in_place_s
            if fault.need is Need.RESTART:
                return spent, False
            if attempt + 1 >= policy.blind_max:
                break
            spent["blind"] += self._costs.sticky_s
        self._person(spent)
        spent["restart"] += policy.swap_s
        self._out.restarts += 1
        return spent, True

    def _person(self, spent: dict[str, float]) -> None:
        spent["person"] += self._policy.manual_s
        self._out.persons += 1
