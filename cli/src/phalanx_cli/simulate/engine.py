"""One job on one fleet under one policy, event by event: faults, recoveries, returns. It draws nothing itself."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from fault_contracts.faults import Action, Attribution
from fault_contracts.recovery_level import RecoveryLevel
from phalanx_cli.simulate.contestants import Contestant
from phalanx_cli.simulate.costs import Costs
from phalanx_cli.simulate.decisions import Decisions
from phalanx_cli.simulate.faults import DAY_S, WATCHED_S, Fault, Need, Symptom
from phalanx_cli.simulate.fleet import Fleet, Machine, Place
from phalanx_cli.simulate.listing import Listing
from phalanx_cli.simulate.node_life import Absence, absence, first_rung
from phalanx_cli.simulate.outcome import Outcome

VERDICT_DRAWS = 8
ATTEMPTS_MAX = 64
"""Restarts for one fault; a person comes long before."""
NEVER_S = float("inf")


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
        self._listing = Listing()
        self._out = Outcome(policy=policy.name, span_s=self._end_s)
        self._up_s = 0.0
        """The job trains from here on; in the future while it recovers."""
        self._empty_seats = 0
        self._ready_s = 0.0
        """All but the empty seats are ready from here on."""
        self._waits_s = 0.0
        """The job waits for machines from here on; what comes before is counted with its fault."""
        self._count = 0
        self._events: list[tuple[float, int, int, int, Fault | Absence]] = []
        for fault in faults:
            self._push(fault.at_s, fault.machine, -1, fault)

    def play(self) -> Outcome:
        while self._events and self._events[0][0] < self._end_s:
            now_s, _, index, device, what = heapq.heappop(self._events)
            machine = self._fleet.machines[index]
            if isinstance(what, Absence):
                self._returned(now_s, machine, what)
            elif machine.place is not Place.AWAY and device in (-1, machine.device):
                self._failed(now_s, machine, what)
        self._close(self._end_s, ends=True)
        self._out.listed = self._listing.listed
        return self._out

    def _push(self, at_s: float, machine: int, device: int, what: Fault | Absence) -> None:
        self._count += 1
        heapq.heappush(self._events, (at_s, self._count, machine, device, what))

    # ------------------------------------------------------------------------------------------------ nodes

    def _failed(self, now_s: float, machine: Machine, fault: Fault) -> None:
        if machine.watched and fault.kind.attribution is not Attribution.USER and machine.on_probation(now_s):
            machine.watched = False
            self._out.refaults += 1
        if machine.place is Place.SEATED:
            self._interrupt(now_s, machine, fault)
        elif costs_node(fault):
            self._take_out(now_s, machine, fault)

    def _take_out(self, now_s: float, machine: Machine, fault: Fault) -> None:
        policy = self._policy
        before = machine.rung if machine.on_probation(now_s) else None
        listed = False
        if policy.ledger and fault.kind.of_node:
            replaces = first_rung(policy, fault, before, listed=False) is Need.REPLACE_NODE
            listed = self._listing.struck(machine.device_id, machine.name, fault.name, now_s, replaces=replaces)
        gone = absence(policy, self._costs, fault, first_rung(policy, fault, before, listed=listed))
        self._fleet.leave(machine)
        days = (min(now_s + gone.away_s, self._end_s) - now_s) / DAY_S
        self._out.node_days_lost += days
        self._out.cause(fault.name).node_days += days
        self._out.out_max = max(self._out.out_max, self._fleet.away)
        self._push(now_s + gone.away_s, machine.index, machine.device, gone)

    def _returned(self, now_s: float, machine: Machine, gone: Absence) -> None:
        self._fleet.back(machine)
        if gone.replaced and self._policy.ledger:
            self._listing.taken_out(machine.device_id, now_s)
            machine.device += 1
        self._out.listed_readmitted += self._listing.is_listed(machine.device_id)
        machine.returned_s, machine.rung = now_s, gone.rung
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
                begin_s = max(now_s, self._ready_s, self._waits_s)
                self._out.phases["wait"] += begin_s - self._waits_s
                self._out.phases["restart"] += self._policy.swap_s
                self._up_s = begin_s + self._policy.swap_s

    def _seat(self, now_s: float) -> bool:
        self._out.swaps += 1
        return self._fleet.take_spare(now_s, weighs=self._policy.probation) is not None

    # -------------------------------------------------------------------------------------------------- job

    def _interrupt(self, now_s: float, machine: Machine, fault: Fault) -> None:
        """Stop, ask the planner, bring the gang back; a person where nobody finds the node."""
        self._out.interruptions += 1
        lost_s = self._close(now_s)
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
        before_s = max(now_s, self._up_s)
        added_s = max(0.0, ready_s - before_s)
        if self._empty_seats:
            # Nobody trains until a machine is back; what that takes is counted when it is.
            self._ready_s = max(self._ready_s, ready_s)
            if self._up_s != NEVER_S:
                self._waits_s = max(ready_s, self._up_s)
            self._up_s = NEVER_S
        else:
            self._up_s = max(self._up_s, ready_s)
        # Of a recovery within another one, only what it adds is counted.
        part = added_s / (ready_s - now_s) if ready_s > now_s else 0.0
        for phase, seconds in spent.items():
            self._out.phases[phase] += seconds * part
        tally = self._out.cause(fault.name)
        tally.faults += 1
        tally.lost_s += added_s + lost_s

    def _attempts(self, now_s: float, fault: Fault) -> tuple[dict[str, float], bool]:
        """Seconds by phase, and whether the node is taken out."""
        policy = self._policy
        spent = dict.fromkeys(("detect", "restart", "wait", "blind", "person"), 0.0)
        for attempt in range(ATTEMPTS_MAX):
            spent["detect"] += policy.detect_s[fault.kind.symptom]
            named = fault.draws[attempt % VERDICT_DRAWS] < policy.named[fault.kind.symptom]
            takes_out = named and costs_node(fault)
            attribution, action = _verdict(fault, named=named, takes_out=takes_out)
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

    def _close(self, now_s: float, *, ends: bool = False) -> float:
        """End a span of training: whole checkpoints are kept, what came after the last is lost."""
        span_s = now_s - self._up_s
        if span_s <= 0:
            if ends:
                self._overrun(-span_s)
            return 0.0
        cycle_s = self._costs.checkpoint_s + self._costs.checkpoint_block_s
        kept = int(span_s / cycle_s)
        lost_s = span_s - kept * cycle_s
        self._out.productive_s += kept * self._costs.checkpoint_s + (lost_s if ends else 0.0)
        self._out.phases["checkpoint"] += kept * self._costs.checkpoint_block_s
        if not ends:
            self._out.phases["lost_work"] += lost_s
            return lost_s
        return 0.0

    def _overrun(self, beyond_s: float) -> None:
        """A recovery that the end of the run cuts off counts until there."""
        if beyond_s == NEVER_S:
            self._out.phases["wait"] += max(0.0, self._end_s - self._waits_s)
            beyond_s = max(0.0, self._waits_s - self._end_s)
        self._out.phases["restart"] -= beyond_s


def costs_node(fault: Fault) -> bool:
    """Whether a right verdict blames the machine."""
    return fault.kind.of_node or fault.kind.symptom is Symptom.LOST or fault.kind.attribution is Attribution.UNKNOWN


def _verdict(fault: Fault, *, named: bool, takes_out: bool) -> tuple[Attribution, Action]:
    """As the classifier would say it."""
    if fault.kind.attribution is Attribution.USER:
        return Attribution.USER, Action.DONT_RETRY_NOTIFY_USER if named else Action.RESTART_PROCESS
    if takes_out:
        return fault.kind.attribution, Action.REPLACE_NODE
    return (fault.kind.attribution if named else Attribution.UNKNOWN), Action.RESTART_PROCESS
