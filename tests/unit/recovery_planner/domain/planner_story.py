"""A job told as a story: agents that report, a clock that is moved by hand, and what the planner decided."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from fault_contracts.agent import (
    AgentHeartbeat,
    AgentLeft,
    AgentPhase,
    AgentReported,
    CheckpointReported,
    CommandRefused,
    ExitStatus,
    JobSpec,
    RestartAsked,
    StepReported,
    WorkerError,
    WorkerExited,
    WorkersCompleted,
    WorkersStarted,
    WorkersStopped,
)
from fault_contracts.commands import Command, StartWorkers, StopWorkers
from fault_contracts.faults import Action, Attribution, Culprit, FaultClassified
from fault_contracts.payload import Payload, Reason
from fault_contracts.policy import RecoveryPolicy
from fault_contracts.rank_faults import RanksFaulted, Suspect
from recovery_planner.domain.checkpoint_history import CheckpointHistory, record
from recovery_planner.domain.gang import Gang, Phase
from recovery_planner.domain.invariants import assert_holds
from recovery_planner.domain.membership import AgentLost
from recovery_planner.domain.node_fit import NodeFit
from recovery_planner.domain.policy import Policy
from recovery_planner.domain.step import DeadlineExpired, Event, Step, new_gang, step

P = TypeVar("P", bound=Payload)
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
JOB = "job-1"


class Story:
    """One job. Every event is handed in twice: the second time it must change nothing and publish nothing."""

    def __init__(
        self,
        *,
        nnodes: int = 2,
        nproc: int = 2,
        policy: Policy | None = None,
        recovery: RecoveryPolicy | None = None,
        **spec: float,
    ) -> None:
        self.spec = JobSpec.model_validate({"nnodes": nnodes, "nproc_per_node": nproc, "policy": recovery, **spec})
        self.policy = policy or Policy()
        self.now = NOON
        self.state: Gang | None = None
        self.history = CheckpointHistory()
        self.fits: dict[str, NodeFit] = {}
        self.published: list[Payload] = []
        self.rules: list[str] = []
        self.instances: dict[str, int] = {}
        self.ports: dict[str, int] = {}

    # ---------------------------------------------------------------------------------------------- the machine

    @property
    def gang(self) -> Gang:
        assert self.state is not None, "no agent has reported yet"
        return self.state

    def feed(self, event: Event) -> Step:
        result = self._feed_once(event)
        again = self._feed_once(event)
        assert again.gang.pending == (), "a repeated event published something"
        assert again.gang == result.gang, "a repeated event changed the record"
        return result

    def _feed_once(self, event: Event) -> Step:
        if self.state is None:
            assert isinstance(event, AgentReported)
            self.state = new_gang(event, now=self.now)
        known = {"history": self.history, "fits": self.fits}
        result = step(self.state, event, now=self.now, policy=self.policy, cause_id="cause", **known)  # type: ignore[arg-type]
        assert_holds(result.gang)
        self.published += [effect.payload for effect in result.gang.pending]
        self.rules += [reason.rule_id for reason in result.reasons]
        self.state = replace(result.gang, pending=())
        return replace(result, gang=self.state)

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def wait_for_deadline(self) -> None:
        assert self.gang.deadline_at is not None, f"{self.gang.phase} has no deadline"
        self.now = self.gang.deadline_at
        self.feed(DeadlineExpired())

    # ----------------------------------------------------------------------------------------- what was published

    def last(self, model: type[P]) -> P:
        found = self.all(model)
        assert found, f"no {model.__name__} was published"
        return found[-1]

    def all(self, model: type[P]) -> list[P]:
        return [payload for payload in self.published if isinstance(payload, model)]

    def kinds(self) -> list[str]:
        return [type(payload).__name__ for payload in self.published]

    def versions_started(self) -> list[int]:
        return [command.fence.topology_version for command in self.all(StartWorkers)]

    def seats(self) -> list[str]:
        return list(self.gang.nodes)

    # --------------------------------------------------------------------------------------------------- agents

    def instance(self, node: str) -> str:
        return f"{node}/{self.instances.get(node, 1)}"

    def report(
        self, node: str, *, phase: AgentPhase = AgentPhase.READY, spec: JobSpec | None = None, **kw: int
    ) -> Step:
        return self.feed(self.reported(node, phase=phase, spec=spec, **kw))

    def reported(
        self, node: str, *, phase: AgentPhase = AgentPhase.READY, spec: JobSpec | None = None, **kw: int
    ) -> AgentReported:
        return AgentReported.model_validate(
            {
                "node_id": node,
                "instance_id": self.instance(node),
                "job_id": JOB,
                "spec": spec or self.spec,
                "address": f"{node}.example",
                "master_port": self.ports.get(node, 29_500),
                "phase": phase,
                "topology_version": 0,
                "pid": 7,
                "host": node,
                "reported_at": self.now,
                **kw,
            }
        )

    def beat(self, node: str, phase: AgentPhase = AgentPhase.READY) -> Step:
        return self.feed(
            AgentHeartbeat(node_id=node, instance_id=self.instance(node), job_id=JOB, phase=phase, topology_version=1)
        )

    def restart_agent(self, node: str) -> Step:
        self.instances[node] = self.instances.get(node, 1) + 1
        return self.report(node)

    def leave(self, node: str) -> Step:
        return self.feed(
            AgentLeft(node_id=node, instance_id=self.instance(node), job_id=JOB, reason="SIGTERM", left_at=self.now)
        )

    def lose(self, node: str) -> Step:
        return self.feed(
            AgentLost(node_id=node, instance_id=self.instance(node), rule_id="agent.absent", sentence=f"{node} is gone")
        )

    def die(
        self,
        node: str,
        rank: int,
        *,
        version: int | None = None,
        step: int | None = None,
        code: int = 1,
        ago_s: float = 0.0,
        raises: str = "",
    ) -> Step:
        error = WorkerError(type="ValueError", fingerprint=raises, source="error_file") if raises else None
        return self.feed(
            WorkerExited(
                node_id=node,
                instance_id=self.instance(node),
                job_id=JOB,
                topology_version=version or self.gang.table.topology_version,
                ordinal=0,
                exit=ExitStatus(rank=rank, local_rank=0, pid=9, exit_code=code),
                error=error,
                step=step,
                ran_s=1.0,
                observed_at=self.now - timedelta(seconds=ago_s),
            )
        )

    def announce(self, *nodes: str) -> None:
        """All ranks of these nodes have entered a re-executable block."""
        for node in nodes or self.gang.nodes:
            version = self.gang.table.topology_version
            self.report(node, phase=AgentPhase.RUNNING, topology_version=version, in_process=True)

    def fail_alive(self, node: str, rank: int, *, asked: RestartAsked | None = None) -> Step:
        """A rank raises inside its block, or asks for a restart; its process lives."""
        return self.feed(
            WorkerExited(
                node_id=node,
                instance_id=self.instance(node),
                job_id=JOB,
                topology_version=self.gang.table.topology_version,
                ordinal=0,
                exit=ExitStatus(rank=rank, local_rank=0, pid=9),
                ran_s=1.0,
                process_alive=True,
                restart_asked=asked,
                observed_at=self.now,
            )
        )

    def hang(
        self,
        node: str,
        *ranks: int,
        version: int | None = None,
        check: str = "hang",
        instance: str | None = None,
        step: int | None = None,
    ) -> Step:
        """Ranks live and do not go on; none are named when nobody stands out."""
        return self.feed(
            RanksFaulted(
                node_id=node,
                instance_id=instance or self.instance(node),
                job_id=JOB,
                topology_version=version or self.gang.table.topology_version,
                check=check,
                rule_id="hang_outside",
                suspects=tuple(Suspect(rank=rank, local_rank=0, pid=9) for rank in ranks),
                reason="it stands still",
                step=step,
                ran_s=1.0,
                observed_at=self.now,
            )
        )

    def stop(self, node: str, *, command: StopWorkers | None = None, at_barrier: tuple[int, ...] = ()) -> Step:
        order = command or self.last(StopWorkers)
        self.ports[node] = self.ports.get(node, 29_500) + 1
        return self.feed(
            WorkersStopped(
                node_id=node,
                instance_id=self.instance(node),
                job_id=JOB,
                topology_version=order.fence.topology_version,
                operation_id=order.operation_id,
                master_port=self.ports[node],
                at_barrier=at_barrier,
                duration_s=0.1,
            )
        )

    def start(self, node: str) -> Step:
        order = self.last(StartWorkers)
        return self.feed(
            WorkersStarted(
                node_id=node,
                instance_id=self.instance(node),
                job_id=JOB,
                topology_version=order.fence.topology_version,
                operation_id=order.operation_id,
                pids=(1, 2),
                source="nursery",
                duration_s=0.1,
            )
        )

    def refuse(self, node: str, command: Command, code: str) -> Step:
        return self.feed(
            CommandRefused(
                node_id=node,
                instance_id=self.instance(node),
                job_id=JOB,
                operation_id=command.operation_id,
                topology_version=command.fence.topology_version,
                code=code,
                message="no",
            )
        )

    def complete(self, node: str) -> Step:
        return self.feed(
            WorkersCompleted(
                node_id=node,
                instance_id=self.instance(node),
                job_id=JOB,
                topology_version=self.gang.table.topology_version,
                completed_at=self.now,
            )
        )

    def make_step(self, node: str, number: int, *, first: bool = True) -> Step:
        return self.feed(
            StepReported(
                node_id=node,
                job_id=JOB,
                topology_version=self.gang.table.topology_version,
                step=number,
                first=first,
                reported_at=self.now,
            )
        )

    def checkpoint(self, number: int, *ranks: int, version: int | None = None) -> None:
        for rank in ranks:
            self.history = record(
                self.history,
                CheckpointReported(
                    node_id="any",
                    job_id=JOB,
                    topology_version=version or self.gang.table.topology_version,
                    rank=rank,
                    step=number,
                    path=f"/ckpt/{number}",
                    saved_at=self.now,
                ),
            )

    def classify(
        self,
        action: Action = Action.RESTART_PROCESS,
        *,
        version: int | None = None,
        attribution: Attribution = Attribution.PLATFORM,
        node: str | None = None,
        fault_id: str = "fault-1",
        supersedes: str | None = None,
        provisional: bool = False,
        cause: str = "process_killed",
    ) -> Step:
        incident = self.gang.incident
        return self.feed(
            FaultClassified(
                fault_id=fault_id,
                job_id=JOB,
                topology_version=version or (incident.fault_version if incident else self.gang.table.topology_version),
                attribution=attribution,
                cause=cause,
                culprit=Culprit(node_id=node),
                confidence=0.9,
                action=action,
                reasons=(Reason(rule_id="judge.rule", sentence="because"),),
                summary="what happened",
                provisional=provisional,
                supersedes=supersedes,
                classified_at=self.now,
            )
        )

    # ------------------------------------------------------------------------------------------------- chapters

    def run(self, *nodes: str) -> "Story":
        """All agents arrive and the first generation runs."""
        for node in nodes or ("a", "b"):
            self.report(node)
        for node in self.gang.nodes:
            self.start(node)
        assert self.gang.phase is Phase.RUNNING
        return self

    def stop_all(self) -> None:
        for node in self.gang.awaited:
            self.stop(node)

    def start_all(self) -> None:
        for node in self.gang.nodes:
            self.start(node)

    def recover(self, node: str = "a", rank: int = 0) -> None:
        """One rank dies and the gang is back."""
        self.die(node, rank)
        self.stop_all()
        self.classify(fault_id=f"fault-{self.gang.table.topology_version}")
        self.start_all()
