"""Numbers from a seed: the only place of the simulation that draws any. Every policy is given the same draws."""

from __future__ import annotations

import math
import random  # noqa: TID251  seeded: a simulation that draws nothing shows nothing
from collections.abc import Sequence


class Draws:
    """A stream of draws. The same name, the same stream."""

    def __init__(self, name: str) -> None:
        self._random = random.Random(name)  # noqa: S311  nothing here is secret

    def share(self) -> float:
        """Evenly in [0, 1)."""
        return self._random.random()

    def shares(self, count: int) -> tuple[float, ...]:
        """So many of them."""
        return tuple(self._random.random() for _ in range(count))

    def below(self, limit: int) -> int:
        """A whole number below a limit."""
        return self._random.randrange(limit)

    def order(self, count: int) -> list[int]:
        """The numbers below `count`, shuffled."""
        return self._random.sample(range(count), count)

    def lognormal(self, mu: float, sigma: float) -> float:
        """By the mean and the deviation of the logarithm."""
        return self._random.lognormvariate(mu, sigma)

    def pick(self, weights: Sequence[float]) -> int:
        """An index, as often as its weight says."""
        return self._random.choices(range(len(weights)), weights)[0]

    def gap(self, mean: float, variation: float) -> float:
        """Time to the next arrival: exponential for a coefficient of variation of 1, in bursts above it.

        Above 1 it is hyperexponential with two phases of balanced means.

        Raises:
            ValueError: a coefficient below 1; arrivals more even than chance are not modelled.
        """
        if variation < 1:
            raise ValueError(f"the variation of arrivals is {variation:g}; it must be 1 or more")
        square = variation * variation
        often = 0.5 * (1 + math.sqrt((square - 1) / (square + 1)))
        phase = often if self._random.random() < often else 1 - often
        return self._random.expovariate(2 * phase / mean)
