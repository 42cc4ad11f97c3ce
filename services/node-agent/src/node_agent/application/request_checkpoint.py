"""Hand a request for a checkpoint to the ranks of this node; training goes on, and nothing is waited for."""

from __future__ import annotations

from fault_contracts.preemption import RequestCheckpoint
from node_agent.application.agent_life import AgentLife
from node_agent.application.checkpoint_ports import CheckpointLine
from node_agent.application.control_ports import Announcer
from node_agent.domain.agent_state import AgentEvent
from training_topology.identity import NodeId
from worker_link.messages import CheckpointRequest


class RequestRefused(Exception):
    """The ranks of this node were not asked; `code` is CommandRefused.code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class CheckpointAsk:
    """The use case behind RequestCheckpoint."""

    def __init__(self, life: AgentLife, line: CheckpointLine, announcer: Announcer) -> None:
        self._life = life
        self._line = line
        self._announcer = announcer

    def carry_out(self, command: RequestCheckpoint) -> None:
        """Ask the ranks. A node without a place in the gang has none, and that is no refusal.

        Raises:
            TransitionRefused: the ranks of this node do not train.
            RequestRefused: they cannot be asked, or it is too late.
        """
        life = self._life
        if life.group is None and life.table.row_of(NodeId(life.identity.node_id)) is None:
            return
        life.advance(AgentEvent.CHECKPOINT)
        version = command.fence.topology_version
        assert life.group is not None, "a group that runs is known"
        if life.group.topology_version != version:
            running = life.group.topology_version
            raise RequestRefused("other_version", f"version {running} runs here, the request is for {version}")
        self.ask(at_step=command.at_step, within_s=command.within_s, why=command.reason.sentence)

    def ask(self, *, at_step: int, within_s: float, why: str) -> None:
        """Send the request to every rank of this node that uses worker-link.

        Raises:
            RequestRefused: a rank is past the step, or none can be reached.
        """
        life = self._life
        newest = life.pace.newest
        if newest is not None and newest >= at_step:
            raise RequestRefused("too_late", f"step {newest} is finished here; a checkpoint of step {at_step} is over")
        request = CheckpointRequest(reason=why[:1_024], deadline_s=within_s, at_step=at_step)
        reached = [handle.rank for handle in life.handles if self._line.send(handle, request)]
        if not reached:
            raise RequestRefused("no_worker_link", "no rank of this node uses worker-link")
        self._announcer.say(f"asked for a checkpoint after step {at_step}: {why}")
