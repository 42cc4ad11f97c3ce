"""How far the ranks of this node are in one topology_version, from the steps they report over worker-link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from training_topology.identity import LocalRank


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """The node as a whole moved on: `step` is the smallest that all local ranks finished."""

    step: int
    first: bool
    """The first such step of this topology_version: the node trains again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Last finished step of each local rank.

    Attributes:
        expected: count of local ranks; the node's step is unknown until each has reported one.
    """

    expected: int
    last_steps: Mapping[LocalRank, int] = field(default_factory=dict)

    @property
    def step(self) -> int | None:
        """The smallest last step over all local ranks; None while one has not reported."""
        if len(self.last_steps) < self.expected:
            return None
        return min(self.last_steps.values())

    def step_of(self, local_rank: LocalRank) -> int | None:
        """Last step of one rank; None when it never told."""
        return self.last_steps.get(local_rank)

    def after_step(self, local_rank: LocalRank, step: int) -> tuple[Progress, Advance | None]:
        """Take note of a finished step; None when the node as a whole did not move.

        A rank that reports a smaller step than before (an evaluation loop that counts anew) is believed: the last
        word counts, but only a step beyond the old minimum is an advance.
        """
        if not 0 <= local_rank < self.expected:
            return self, None
        before = self.step
        progress = replace(self, last_steps={**self.last_steps, local_rank: step})
        after = progress.step
        if after is None or (before is not None and after <= before):
            return progress, None
        return progress, Advance(step=after, first=before is None)
