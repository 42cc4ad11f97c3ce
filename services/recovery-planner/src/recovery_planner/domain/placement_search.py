"""The cheapest way to fill the holes that a bounded search finds: greedy, then better by single changes. Deterministic.

Spares that stand in the same part of the cluster are interchangeable, so parts are compared, not spares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recovery_planner.domain.member import Member
from recovery_planner.domain.nearness import Stand, stand_of
from recovery_planner.domain.placement_cost import Cost, Seats

COSTS_MAX = 20_000
"""Costs worked out for one placement; each takes some 5 us. Beyond it a hole takes the spare that came first."""
HOLES_IMPROVED_MAX = 32
"""With more holes than this, a whole part of the cluster is gone, and greedy is what there is time for."""
ROUNDS_MAX = 4
_GAIN_MIN = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Who takes a hole, and what else could have been.

    Attributes:
        cost: with all others as they sit in the end.
        next_node_id, next_cost: the best that stands elsewhere and was free at the end; empty: none.
    """

    node_rank: int
    node_id: str
    stand: Stand
    cost: Cost
    next_node_id: str = ""
    next_cost: Cost | None = None


@dataclass(frozen=True, slots=True, order=True)
class _Part:
    """Spares that cost the same wherever they go."""

    doubt: bool
    stand: Stand


class Search:
    """One placement. `able`: nodes that may be taken, best first where costs are equal."""

    def __init__(self, seats: Seats, able: Sequence[Member]) -> None:
        self._seats = seats
        self._free: dict[_Part, list[Member]] = {}
        for member in able:
            part = _Part(bool(member.doubt), stand_of(member.labels))
            self._free.setdefault(part, []).append(member)
        self._taken: dict[int, tuple[_Part, Member]] = {}
        self._costs = 0

    def fill(self, holes: Sequence[int]) -> list[Choice]:
        """As many of the holes as there are spares for, in the order given."""
        for hole in holes:
            part = self._cheapest(hole)
            if part is None:
                break
            self._take(hole, part)
        if len(self._taken) <= HOLES_IMPROVED_MAX:
            self._improve()
        return [self._choice(hole) for hole in holes if hole in self._taken]

    def _cheapest(self, hole: int) -> _Part | None:
        parts = [part for part, members in self._free.items() if members]
        if not parts or self._costs + len(parts) > COSTS_MAX:
            return min(parts, key=self._order, default=None)
        return min(parts, key=lambda part: (self._cost(hole, part).total, self._order(part)))

    def _order(self, part: _Part) -> tuple[bool, int]:
        return part.doubt, self._free[part][0].arrival

    def _cost(self, hole: int, part: _Part) -> Cost:
        self._costs += 1
        return self._seats.cost(hole, part.stand, doubt=part.doubt)

    def _take(self, hole: int, part: _Part) -> None:
        self._taken[hole] = (part, self._free[part].pop(0))
        self._seats.sit(hole, part.stand)

    def _give_back(self, hole: int) -> _Part:
        part, member = self._taken.pop(hole)
        self._free[part].insert(0, member)
        self._seats.get_up(hole)
        return part

    def _total(self) -> float:
        return sum(self._cost(hole, part).total for hole, (part, _) in self._taken.items())

    def _improve(self) -> None:
        """Groups into one domain, other parts for single holes, exchanges of two, as long as the sum over all falls."""
        for _ in range(ROUNDS_MAX):
            before = self._total()
            for hole in sorted(self._taken):
                self._gather(hole)
                self._move(hole)
                self._exchange(hole)
            if self._costs > COSTS_MAX or self._total() > before - _GAIN_MIN:
                return

    def _gather(self, hole: int) -> None:
        """Of a tensor group that lost several nodes, all into one NVLink domain: a single one would be alone there."""
        mates = sorted(self._seats.tensor_mates(hole).intersection(self._taken) | {hole})
        if len(mates) < 2 or hole != mates[0]:
            return
        domains = sorted({part.stand.nvlink_domain for part in self._free if part.stand.nvlink_domain})
        for domain in domains:
            if self._costs > COSTS_MAX:
                return
            total = self._total()
            # Last taken, first given back, so that everybody finds the spare again that it had.
            former = {mate: self._give_back(mate) for mate in reversed(mates)}
            there = [part for part in self._free if part.stand.nvlink_domain == domain]
            if sum(len(self._free[part]) for part in there) >= len(mates):
                for mate in mates:
                    left = [part for part in there if self._free[part]]
                    self._take(mate, min(left, key=lambda part: (self._cost(mate, part).total, self._order(part))))
                if self._total() < total - _GAIN_MIN:
                    continue
                for mate in reversed(mates):
                    self._give_back(mate)
            for mate in mates:
                self._take(mate, former[mate])

    def _move(self, hole: int) -> None:
        for part in sorted(part for part, members in self._free.items() if members):
            if self._costs > COSTS_MAX:
                return
            if part == self._taken[hole][0]:
                continue
            total = self._total()
            former = self._give_back(hole)
            self._take(hole, part)
            if self._total() > total - _GAIN_MIN:
                self._give_back(hole)
                self._take(hole, former)

    def _exchange(self, hole: int) -> None:
        for other in sorted(self._taken):
            if self._costs > COSTS_MAX:
                return
            if other <= hole or self._taken[other][0] == self._taken[hole][0]:
                continue
            total = self._total()
            one, two = self._give_back(hole), self._give_back(other)
            self._take(hole, two)
            self._take(other, one)
            if self._total() > total - _GAIN_MIN:
                self._give_back(hole)
                self._give_back(other)
                self._take(hole, one)
                self._take(other, two)

    def _choice(self, hole: int) -> Choice:
        part, member = self._taken[hole]
        cost = self._cost(hole, part)
        rest: Mapping[_Part, list[Member]] = {each: left for each, left in self._free.items() if left and each != part}
        if not rest or self._costs + len(rest) > COSTS_MAX:
            return Choice(node_rank=hole, node_id=member.node_id, stand=part.stand, cost=cost)
        costs = {each: self._cost(hole, each) for each in rest}
        best = min(rest, key=lambda each: (costs[each].total, self._order(each)))
        return Choice(
            node_rank=hole,
            node_id=member.node_id,
            stand=part.stand,
            cost=cost,
            next_node_id=rest[best][0].node_id,
            next_cost=costs[best],
        )
