"""What a simulated agent says, spelled as the contracts want it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fault_contracts.agent import (
    AgentHeartbeat,
    AgentLeft,
    AgentReported,
    CheckpointReported,
    CommandRefused,
    ExitStatus,
    OomKill,
    StepReported,
    WorkerError,
    WorkerExited,
    WorkersCompleted,
    WorkersStarted,
    WorkersStopped,
)
from fault_contracts.commands import Command, StartWorkers, StopWorkers
from fault_contracts.envelope import Envelope, seal
from fault_contracts.lone_agent import AgentActedAlone
from fault_contracts.payload import Payload, Reason
from fault_contracts.preemption import PreemptionNoticed
from fault_contracts.rank_faults import RanksFaulted, Suspect

if TYPE_CHECKING:
    from sim_agent import SimAgent


class Reports:
    """The voice of one life of an agent."""

    def __init__(self, agent: SimAgent) -> None:
        self._agent = agent
        self._beats = 0
        self._who = {"node_id": agent.node_id, "instance_id": agent.instance_id, "job_id": agent.job}
        self._where = {"node_id": agent.node_id, "job_id": agent.job}

    def reported(self) -> None:
        """Here I am."""
        agent = self._agent
        agent.send(
            AgentReported(
                **self._who,
                spec=agent.spec,
                address=agent.node_id,
                master_port=agent.port,
                phase=agent.phase,
                topology_version=agent.version_seen,
                pid=1,
                host=agent.node_id,
                in_process=agent.in_place.on,
                reported_at=agent.now(),
            )
        )

    def heartbeat(self) -> Envelope[AgentHeartbeat]:
        """Not stored, so not in the outbox."""
        agent = self._agent
        self._beats += 1
        beat = AgentHeartbeat(**self._who, phase=agent.phase, topology_version=agent.version_seen)
        return seal(
            beat, source=f"/{agent.node_id}", cause_id=agent.instance_id, time=agent.now(), ordinal=f"b{self._beats}"
        )

    def left(self, why: str) -> None:
        """On purpose."""
        self._agent.send(AgentLeft(**self._who, reason=why, left_at=self._agent.now()))

    def refusal(self, command: Command, code: str, message: str) -> CommandRefused:
        """A command is not carried out."""
        return CommandRefused(
            **self._who,
            operation_id=command.operation_id,
            topology_version=command.fence.topology_version,
            code=code,
            message=message,
        )

    def refused(self, command: Command, code: str, message: str) -> None:
        """Says so aloud."""
        self._agent.send(self.refusal(command, code, message))

    def stopped(self, command: StopWorkers, standing: tuple[int, ...]) -> Payload:
        """No rank runs; some may stand at the barrier."""
        return WorkersStopped(
            **self._who,
            topology_version=command.fence.topology_version,
            operation_id=command.operation_id,
            master_port=self._agent.port,
            at_barrier=standing,
            duration_s=0.1,
        )

    def started(self, command: StartWorkers, ranks: tuple[int, ...], survivors: tuple[int, ...]) -> Payload:
        """All ranks run."""
        return WorkersStarted(
            **self._who,
            topology_version=command.fence.topology_version,
            operation_id=command.operation_id,
            pids=tuple(rank + 1 for rank in ranks),
            source="in_process" if survivors == ranks else "nursery",
            survivors=survivors,
            duration_s=0.1,
        )

    def completed(self) -> None:
        """All ranks ended with 0."""
        agent = self._agent
        agent.send(WorkersCompleted(**self._who, topology_version=agent.version, completed_at=agent.now()))

    def acted_alone(self, version: int, reason: Reason) -> None:
        """Stopped without being told to."""
        if version:
            self._agent.send(
                AgentActedAlone(
                    **self._who,
                    topology_version=version,
                    policy="keep",
                    silent_s=60,
                    reason=reason,
                    acted_at=self._agent.now(),
                )
            )

    def step(self, step: int, *, first: bool) -> None:
        """Progress."""
        agent = self._agent
        agent.send(
            StepReported(**self._where, topology_version=agent.version, step=step, first=first, reported_at=agent.now())
        )

    def saved(self, rank: int, step: int) -> None:
        """One rank confirms a checkpoint."""
        agent = self._agent
        agent.send(
            CheckpointReported(
                **self._where,
                topology_version=agent.version,
                rank=rank,
                step=step,
                path=f"/ckpt/{agent.version}/{step}",
                writers=agent.table.world_size,
                saved_at=agent.now(),
            )
        )

    def exited(
        self, rank: int, *, signal: int | None = None, error: str = "", oom: bool = False, step: int | None = None
    ) -> None:
        """A rank ended by itself, or failed in its block and goes on to the barrier."""
        agent = self._agent
        lives = agent.ranks.get(rank) == "faulted"
        raised = None
        if error:
            raised = WorkerError(
                type=error,
                message="Connection closed by peer" if error == "DistBackendError" else "it went wrong",
                fingerprint=f"fp-{error}",
                frames=("/app/train.py:10 in main: step()",),
                source="error_file",
            )
        agent.send(
            WorkerExited(
                **self._who,
                topology_version=agent.ranks_version,
                ordinal=agent.deaths,
                exit=ExitStatus(
                    rank=rank,
                    local_rank=rank % agent.spec.nproc_per_node,
                    pid=rank + 1,
                    exit_code=None if signal or lives else 1,
                    signal=signal,
                    oom_kill=OomKill.YES if oom else OomKill.NO,
                ),
                error=raised,
                step=step,
                ran_s=120.0,
                observed_at=agent.now(),
            )
        )
        agent.deaths += 1

    def hangs(self, rank: int) -> None:
        """A rank lives and does not go on."""
        agent = self._agent
        agent.send(
            RanksFaulted(
                **self._who,
                topology_version=agent.version,
                check="hang",
                rule_id="hang_outside",
                suspects=(Suspect(rank=rank, local_rank=rank % agent.spec.nproc_per_node, pid=rank + 1),),
                reason=f"rank {rank} does not come to the collective",
                ran_s=60,
                observed_at=agent.now(),
            )
        )

    def notice(self, within_s: float, at_step: int) -> None:
        """This node will be gone soon."""
        agent = self._agent
        agent.send(
            PreemptionNoticed(
                **self._who,
                topology_version=agent.version,
                at_step=at_step,
                within_s=within_s,
                reason="spot instance is reclaimed",
                noticed_at=agent.now(),
            )
        )
