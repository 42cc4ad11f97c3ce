"""Which ranks a start lets in through the barrier, and how: the environment of the new generation, no new process."""

from __future__ import annotations

from collections.abc import Mapping

from fault_contracts.checkpoints import data_path_of, path_of
from fault_contracts.commands import StartWorkers
from fault_contracts.recovery_level import RecoveryLevel
from node_agent.application.agent_life import AgentLife
from node_agent.application.ports import BlockLine, WorkerHandle, WorkerProcesses, WorkerSpec
from node_agent.domain.block_ranks import BlockPlace
from node_agent.domain.worker_env import DATA_PATH_NAME, generation_names
from training_topology.identity import LocalRank, NodeId
from worker_link.block_messages import Go


class InPlaceRestart:
    """The in-process half of the start; phases are the business of WorkerStart."""

    def __init__(self, life: AgentLife, processes: WorkerProcesses, line: BlockLine) -> None:
        self._life = life
        self._processes = processes
        self._line = line

    def kept(self, command: StartWorkers) -> Mapping[LocalRank, WorkerHandle]:
        """Ranks that stand at the barrier and are not to be replaced."""
        if command.level is not RecoveryLevel.IN_PROCESS or command.ranks_replaced is None or not self._life.in_process:
            return {}
        replaced = set(command.ranks_replaced)
        # By the numbers of the new table: in a gang of another size the same process may have another one.
        own = self._life.table.ranks_of(NodeId(self._life.identity.node_id))
        return {
            handle.local_rank: handle
            for handle in self._life.handles
            if self._life.blocks.place_of(handle.local_rank) is BlockPlace.AT_BARRIER
            and handle.local_rank < len(own)
            and own[handle.local_rank] not in replaced
        }

    def let_in(self, handle: WorkerHandle, spec: WorkerSpec, command: StartWorkers) -> WorkerHandle | None:
        """Open the barrier for one rank; None when it cannot be reached any more."""
        renewed = self._processes.reassign(handle, rank=spec.rank, topology_version=spec.topology_version)
        # Before the order: the rank's first words after it are those of the new generation.
        self._line.reassign(handle, renewed)
        checkpoint = command.checkpoint
        env = {name: value for name, value in spec.env.items() if name in generation_names()}
        if checkpoint is not None and (data_path := data_path_of(checkpoint, spec.rank)):
            env[DATA_PATH_NAME] = data_path
        go = Go(
            topology_version=spec.topology_version,
            env=env,
            checkpoint_step=None if checkpoint is None else checkpoint.step,
            checkpoint_path="" if checkpoint is None else path_of(checkpoint, spec.rank),
        )
        return renewed if self._line.order(renewed, go) else None
