"""Checkpoints that break whoever loads them: the same exception in rank 0, at the first step after the load."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim_agent import SimAgent
    from sim_world import World

ERROR = "ValueError"


class Poison:
    """Which steps of which jobs are bad."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._bad: dict[str, set[int]] = defaultdict(set)

    def strike(self, job: str, for_s: float | None) -> int | None:
        """The newest step that a rank has saved is bad from now on; None: nothing is saved."""
        step = self._world.training.saved.get(job)
        if step is None:
            return None
        self._bad[job].add(step)
        if for_s is not None:
            self._world.later(for_s, lambda: self._bad[job].discard(step))
        return step

    def bites(self, agents: list[SimAgent]) -> bool:
        """A generation makes its first step; whether it breaks of what it has loaded."""
        for agent in agents:
            if 0 in agent.ranks:
                return agent.from_step in self._bad[agent.job] and rank_raises(agent, 0, ERROR)
        return False


def rank_raises(agent: SimAgent, rank: int, error: str) -> bool:
    """An exception in a rank: of a re-executable script it is caught, and the rank goes to the barrier."""
    caught = agent.in_place.on and rank in agent.in_place.inside and agent.ranks[rank] == "run"
    if not agent.rank_ends(rank, "faulted" if caught else "dead"):
        return False
    agent.say.exited(rank, error=error, step=agent.world.training.steps.get((agent.job, agent.version)))
    return True
