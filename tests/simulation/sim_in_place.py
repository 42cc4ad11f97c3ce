"""Restarts in place of a simulated agent: ranks of a re-executable script come to a barrier instead of ending.

Built on node_agent's own table of in-process mode. What is left out: the messages between agent and rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fault_contracts.agent import AgentPhase
from fault_contracts.commands import StartWorkers, StopWorkers
from fault_contracts.recovery_level import RecoveryLevel
from node_agent.domain.agent_state import TRANSITIONS, AgentEvent, Table
from node_agent.domain.in_process_state import IN_PROCESS_TRANSITIONS

if TYPE_CHECKING:
    from sim_agent import SimAgent

LATE = 0.05
"""Of the ranks that are called back, so many do not come."""


class InPlace:
    """What one life of an agent knows of its ranks' re-executable blocks.

    Attributes:
        on: every rank has announced its block once, and none was stopped since (AgentLife.in_process).
        inside: ranks that run their block now.
        version: the generation of the ranks at the barrier.
    """

    def __init__(self, agent: SimAgent) -> None:
        self._agent = agent
        self.on = False
        self.inside: set[int] = set()
        self.version = 0

    @property
    def table(self) -> Table:
        """What the agent's phases may do."""
        return IN_PROCESS_TRANSITIONS if self.on else TRANSITIONS

    def forget(self) -> None:
        """No rank is left."""
        self.on, self.version = False, 0
        self.inside.clear()

    def begin(self, version: int, ranks: set[int]) -> None:
        """Fresh ranks will come to their block after a while."""
        agent = self._agent
        if not agent.world.plans[agent.job].in_place:
            return

        def announce() -> None:
            if agent.is_leaving or agent.version != version or agent.phase is not AgentPhase.RUNNING:
                return
            self.inside |= {rank for rank in ranks if agent.ranks.get(rank) == "run"}
            if not self.on and self.inside >= set(agent.ranks):
                self.on = True
                agent.say.reported()

        agent.world.later(agent.world.dice.uniform(0.1, 2.5), announce)

    async def to_barrier(self, command: StopWorkers) -> tuple[int, ...]:
        """Call the ranks back, end those that cannot come, and say who stands there."""
        agent, dice = self._agent, self._agent.world.dice
        agent.advance(AgentEvent.STOP)
        doomed = set(command.ranks or ())
        coming = {rank for rank in agent.ranks if rank not in doomed and rank in self.inside}
        coming = {rank for rank in coming if agent.ranks[rank] != "dead"}
        late = {rank for rank in coming if agent.ranks[rank] == "hung" or dice.random() < LATE}
        took_s = agent.spec.barrier_s if late else dice.uniform(0.02, 1.0)
        await agent.world.clock.sleep(took_s)
        standing = sorted(rank for rank in coming - late if agent.ranks.get(rank) in ("run", "faulted", "barrier"))
        self.version = max(self.version, agent.version)
        agent.version, agent.save_at = 0, None
        agent.port += 1
        agent.ranks = dict.fromkeys(standing, "barrier")
        self.inside &= set(standing)
        if agent.is_leaving:
            return ()
        if standing:
            agent.advance(AgentEvent.AT_BARRIER)
        else:
            self.forget()
            agent.advance(AgentEvent.STOPPED)
        return tuple(standing)

    def kept(self, command: StartWorkers) -> set[int]:
        """Local ranks that stand at the barrier and are not to be replaced."""
        agent = self._agent
        if command.level is not RecoveryLevel.IN_PROCESS or command.ranks_replaced is None or not self.on:
            return set()
        replaced, nproc = set(command.ranks_replaced), agent.spec.nproc_per_node
        return {r % nproc for r, state in agent.ranks.items() if state == "barrier" and r not in replaced}
