"""What the ranks of all jobs do: a gang steps together or not at all, saves now and then, and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim_events import Saved

from fault_contracts.agent import AgentPhase

if TYPE_CHECKING:
    from sim_agent import SimAgent
    from sim_world import World

TICK_S = 1.0
TELL_EVERY = 5
"""A step in so many is told."""


class Training:
    """One clock for all jobs. `steps` is where each generation of a job stands."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.steps: dict[tuple[str, int], int] = {}
        self.saved: dict[str, int] = {}
        """The newest step of each job that a rank has on disk."""
        self._first: set[tuple[str, int]] = set()
        self.paused = False
        """At the end nobody steps any more, so that everything that was said can arrive."""

    def joined(self, agent: SimAgent) -> None:
        """A node's ranks are ready to step."""
        self.steps.setdefault((agent.job, agent.version), agent.from_step)

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._world.clock.sleep(TICK_S)
            for job in () if self.paused else self._world.jobs:
                self._tick(job)

    def gang_of(self, job: str) -> list[SimAgent]:
        """The agents whose ranks together make a whole gang that can step; empty: there is none."""
        by_version: dict[int, list[SimAgent]] = {}
        for agent in self._world.agents_of(job):
            if agent.version and agent.phase is AgentPhase.RUNNING and (job, agent.version) in self.steps:
                by_version.setdefault(agent.version, []).append(agent)
        for agents in by_version.values():
            running = {rank for agent in agents for rank, state in agent.ranks.items() if state == "run"}
            if len(running) == agents[0].table.world_size and len(agents) == agents[0].table.nnodes:
                return agents
        return []

    def _tick(self, job: str) -> None:
        agents = self.gang_of(job)
        if not agents:
            return
        plan = self._world.plans[job]
        key = (job, agents[0].version)
        self.steps[key] += 1
        step, first = self.steps[key], key not in self._first
        self._first.add(key)
        if first and self._world.poison.bites(agents):
            return
        for agent in agents:
            if first or step % TELL_EVERY == 0:
                agent.say.step(step, first=first)
            if step % plan.save_every == 0 or step == agent.save_at:
                self._save(agent, step)
        if plan.steps is not None and step >= plan.steps:
            for agent in agents:
                agent.all_done()

    def _save(self, agent: SimAgent, step: int) -> None:
        """Now and then a rank is slow to write; what it had not written when it died was never confirmed."""
        world, version = self._world, agent.version
        for rank in agent.ranks:
            if world.dice.random() < 0.1:
                world.later(world.dice.uniform(0.5, 6.0), lambda rank=rank: self._save_rank(agent, rank, step, version))
            else:
                self._save_rank(agent, rank, step, version)

    def _save_rank(self, agent: SimAgent, rank: int, step: int, version: int) -> None:
        if agent.dead or agent.version != version or agent.ranks.get(rank) not in ("run", "done"):
            return
        self.saved[agent.job] = step
        self._world.saw(Saved(job=agent.job, version=version, rank=rank, step=step))
        agent.say.saved(rank, step)
