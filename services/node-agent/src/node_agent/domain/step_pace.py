"""How fast the ranks of this node step: the newest step that one of them finished, and how long a step takes."""

from __future__ import annotations

from dataclasses import dataclass

STEPS_KEPT = 16
"""Steps behind the pace. Few, so that it follows a job that becomes slower; one slow step among them is not all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPace:
    """The pace in one topology_version.

    Attributes:
        marks: (monotonic seconds, step) of the newest steps, rising in both.
    """

    topology_version: int = 0
    marks: tuple[tuple[float, int], ...] = ()

    @property
    def newest(self) -> int | None:
        """The largest step that a rank of this node finished; None is unknown."""
        return self.marks[-1][1] if self.marks else None

    @property
    def step_s(self) -> float | None:
        """Seconds of a step, on average over the newest ones; None before the second."""
        if len(self.marks) < 2:
            return None
        (first_s, first), (last_s, last) = self.marks[0], self.marks[-1]
        return (last_s - first_s) / (last - first)

    def after(self, step: int, *, topology_version: int, at_s: float) -> StepPace:
        """Take note of a finished step. Another generation begins anew; a step that is no news changes nothing."""
        if topology_version != self.topology_version:
            return StepPace(topology_version=topology_version, marks=((at_s, step),))
        if self.newest is not None and step <= self.newest:
            return self
        return StepPace(topology_version=topology_version, marks=(*self.marks, (at_s, step))[-STEPS_KEPT:])
