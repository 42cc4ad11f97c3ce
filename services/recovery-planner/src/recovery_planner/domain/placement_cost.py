"""What it costs to give a node a place: named terms, from the labels of nodes and of ranks.

A job's ranks say where they stand in the layout (training_topology.layout), nodes say where they stand in the cluster
(nearness). A tensor group talks in every layer: inside one NVLink domain, or it crawls. Pipeline neighbours talk in
every microbatch: near. Replicas hold the same part of the model: not all of them where one failure takes them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from recovery_planner.domain.nearness import NOWHERE, Stand, distance
from training_topology.layout import Grouping, Layout

TENSOR_WEIGHT, PIPELINE_WEIGHT, SPREAD_WEIGHT, RING_WEIGHT, DOUBT_WEIGHT = 100.0, 10.0, 3.0, 1.0, 1_000.0
"""A term is 0 (as good as can be) to 1, and costs at most its weight. Each outweighs those behind it: an all-reduce of
tensors over a slower link costs more each step than all else; a problem of the node outweighs everything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one seat costs. Each term is between 0 and 1.

    Attributes:
        tensor: share of the tensor group that is outside of the node's NVLink domain.
        pipeline: mean distance to the stages before and behind.
        spread: share of the replicas that stand in the same failure domain.
        ring: mean distance to the neighbours by node_rank; only where no rank told its labels.
        doubt: 1 for a node with an open problem.
    """

    tensor: float = 0.0
    pipeline: float = 0.0
    spread: float = 0.0
    ring: float = 0.0
    doubt: float = 0.0

    @property
    def total(self) -> float:
        """Weighed sum."""
        return (
            TENSOR_WEIGHT * self.tensor
            + PIPELINE_WEIGHT * self.pipeline
            + SPREAD_WEIGHT * self.spread
            + RING_WEIGHT * self.ring
            + DOUBT_WEIGHT * self.doubt
        )

    def __str__(self) -> str:
        terms = (
            ("doubt", DOUBT_WEIGHT * self.doubt),
            ("tensor", TENSOR_WEIGHT * self.tensor),
            ("pipeline", PIPELINE_WEIGHT * self.pipeline),
            ("spread", SPREAD_WEIGHT * self.spread),
            ("ring", RING_WEIGHT * self.ring),
        )
        named = ", ".join(f"{name} {value:.3g}" for name, value in terms if value)
        return f"{self.total:.3g} ({named})" if named else "0"


class _Groups:
    """How many members of each group stand in each part of the cluster. Counted when first asked for."""

    def __init__(self, grouping: Grouping, part: str) -> None:
        self._grouping = grouping
        self._part = part
        self._counts: dict[int, tuple[int, Counter[str]]] = {}

    def share(self, node_rank: int, stand: Stand, seats: Mapping[int, Stand]) -> float | None:
        """Mean share of the other members of a node's groups that stand where it does; None: it has no group."""
        numbers = self._grouping.of(node_rank)
        part = getattr(stand, self._part)
        own = seats.get(node_rank)
        shares = []
        for number in numbers:
            seated, parts = self._counted(number, seats)
            # Its own seat, when it sits there already, is not one of the others.
            others = seated - (own is not None)
            same = 0 if not part else parts[part] - (own is not None and getattr(own, self._part) == part)
            if others:
                shares.append(same / others)
        return sum(shares) / len(shares) if shares else None

    def change(self, node_rank: int, stand: Stand, by: int) -> None:
        """Somebody sat down (1) or got up (-1)."""
        for number in self._grouping.of(node_rank):
            if number in self._counts:
                seated, parts = self._counts[number]
                parts[getattr(stand, self._part)] += by
                self._counts[number] = (seated + by, parts)

    def _counted(self, number: int, seats: Mapping[int, Stand]) -> tuple[int, Counter[str]]:
        found = self._counts.get(number)
        if found is None:
            here = [seats[each] for each in self._grouping.groups[number] if each in seats]
            found = (len(here), Counter(getattr(stand, self._part) for stand in here))
            self._counts[number] = found
        return found


class Seats:
    """Who sits where while a placement is searched for; lives inside one decision.

    Args:
        seats: node_rank → where the node that keeps it stands.
    """

    def __init__(self, layout: Layout, seats: dict[int, Stand]) -> None:
        self._layout = layout
        self._seats = seats
        self._tensor = _Groups(layout.tensor, "nvlink_domain")
        self._replicas = _Groups(layout.replicas, "failure_domain")

    def tensor_mates(self, node_rank: int) -> set[int]:
        """Nodes that share a tensor group with this one, itself included."""
        return {mate for number in self._layout.tensor.of(node_rank) for mate in self._layout.tensor.groups[number]}

    def sit(self, node_rank: int, stand: Stand) -> None:
        """Give an empty place to a node."""
        self._tensor.change(node_rank, stand, 1)
        self._replicas.change(node_rank, stand, 1)
        self._seats[node_rank] = stand

    def get_up(self, node_rank: int) -> None:
        """Empty a place."""
        stand = self._seats.pop(node_rank)
        self._tensor.change(node_rank, stand, -1)
        self._replicas.change(node_rank, stand, -1)

    def cost(self, node_rank: int, stand: Stand, *, doubt: bool = False) -> Cost:
        """Of a node that stands there in this place, beside all others as they sit now."""
        together = self._tensor.share(node_rank, stand, self._seats)
        same = self._replicas.share(node_rank, stand, self._seats)
        return Cost(
            tensor=0.0 if together is None else 1.0 - together,
            pipeline=self._mean_distance(stand, self._layout.neighbours.get(node_rank, ())),
            spread=0.0 if same is None else same,
            ring=0.0 if self._layout.is_known else self._mean_distance(stand, (node_rank - 1, node_rank + 1)),
            doubt=float(doubt),
        )

    def _mean_distance(self, stand: Stand, others: tuple[int, ...]) -> float:
        distances = list(self._distances(stand, others))
        return sum(distances) / len(distances) if distances else 0.0

    def _distances(self, stand: Stand, others: tuple[int, ...]) -> Iterator[float]:
        for other in others:
            if other in self._seats:
                yield distance(stand, self._seats.get(other, NOWHERE))
