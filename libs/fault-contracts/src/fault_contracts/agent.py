"""What a node agent reports: itself, its workers, their steps and checkpoints. Key: node_id."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from fault_contracts.checkpoints import CheckpointRef
from fault_contracts.payload import At, Excerpt, FilePath, Name, Payload, Sentence
from fault_contracts.policy import RecoveryPolicy

NODE_LABELS_MAX = 16
_LabelText = Annotated[str, Field(min_length=1, max_length=128)]
NodeLabels = Annotated[dict[_LabelText, _LabelText], Field(max_length=NODE_LABELS_MAX)]
"""Where a node stands in the cluster. The planner reads rack, switch and nvlink_domain; others are for people."""


class AgentPhase(StrEnum):
    """Process-mode state of the launcher's worker group on one node."""

    INIT = "init"
    READY = "ready"
    RUNNING = "running"
    STOPPING = "stopping"
    FAULTED = "faulted"
    COMPLETED = "completed"
    SHUTDOWN = "shutdown"


class JobSpec(Payload):
    """What the user asked for; every agent of a job must bring the same."""

    nnodes: int = Field(ge=1, le=100_000)
    nproc_per_node: int = Field(ge=1, le=1_024)
    spares: int = Field(default=0, ge=0, le=10_000)
    restarts_max: int = Field(default=3, ge=0, le=100_000)
    """Restarts allowed inside `window_s`, over all causes."""
    window_s: float = Field(default=3_600.0, gt=0)
    stop_grace_s: float = Field(default=0.5, ge=0, le=3_600)
    """Between SIGTERM and SIGKILL when a broken gang is stopped."""
    barrier_s: float = Field(default=10.0, gt=0, le=3_600)
    """How long a rank of a re-executable script has to come to the barrier; then its process is ended."""
    policy: RecoveryPolicy | None = None
    """What the job wants done about its faults; None: as the fields above say."""

    @model_validator(mode="after")
    def _elastic_fits(self) -> Self:
        elastic = None if self.policy is None else self.policy.elastic
        if elastic is None:
            return self
        if elastic.nnodes_min > self.nnodes:
            raise ValueError(f"elastic nnodes_min {elastic.nnodes_min} is above the job's {self.nnodes} nodes")
        if any(allowed > self.nnodes for allowed in elastic.nnodes_allowed):
            raise ValueError(f"elastic nnodes_allowed has a value above the job's {self.nnodes} nodes")
        if not elastic.nnodes_allowed and self.nnodes % elastic.replica_nodes:
            raise ValueError(f"{self.nnodes} nodes are no whole replicas of {elastic.replica_nodes} (replica_nodes)")
        return self


class AgentReported(Payload):
    """An agent is here and in this state. Sent at connect and at every reconnect; what follows has its own messages."""

    node_id: Name
    instance_id: Name
    """One life of the agent process; a new one after a restart."""
    job_id: Name
    spec: JobSpec
    node_rank_wanted: int | None = Field(default=None, ge=0)
    """`--node-rank`, where the user fixed it."""
    node_labels: NodeLabels = Field(default_factory=dict)
    """`--node-labels`: rack, switch, nvlink_domain, ..."""
    address: Name
    master_port: int = Field(ge=1, le=65_535)
    """A port reserved on this node for the next store of rank 0, should this node get node_rank 0."""
    phase: AgentPhase
    topology_version: int = Field(ge=0)
    """The newest version this agent has seen; 0 before the first start."""
    pid: int = Field(ge=1)
    host: Name
    in_process: bool = False
    """Every rank of `topology_version` on this node is inside a re-executable block: it can restart in place."""
    checkpoint_found: CheckpointRef | None = None
    """The newest whole checkpoint that lay in the watched folder (`--checkpoint-dir`) before the job began. A
    candidate: what ranks of this job confirm is worth more."""
    reported_at: At


class AgentHeartbeat(Payload):
    """Alive. Core NATS only, not stored: the next one replaces it."""

    node_id: Name
    instance_id: Name
    job_id: Name
    phase: AgentPhase
    topology_version: int = Field(ge=0)
    step: int | None = None


class AgentLeft(Payload):
    """The agent leaves on purpose (SIGTERM, end of job). Its ranks are stopped."""

    node_id: Name
    instance_id: Name
    job_id: Name
    reason: Sentence
    left_at: At


class OomKill(StrEnum):
    """Whether the kernel's OOM killer ended a process."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class WorkerError(Payload):
    """The exception that ended a worker, from its error file or the tail of stderr."""

    type: Name
    message: Excerpt = ""
    fingerprint: Name
    """Equal for the same exception raised at the same place, whatever the addresses and numbers in it."""
    frames: tuple[str, ...] = Field(default=(), max_length=64)
    raised_at: At | None = None
    source: Name
    """error_file | stderr."""


class ExitStatus(Payload):
    """How one rank ended."""

    rank: int = Field(ge=0)
    local_rank: int = Field(ge=0)
    pid: int = Field(ge=1)
    exit_code: int | None = None
    signal: int | None = None
    """Both None: the status was lost and is unknown."""
    oom_kill: OomKill = OomKill.UNKNOWN


class RestartAsked(StrEnum):
    """Level of restart that a script asked for. Closed: it steers the planner."""

    IN_PROCESS = "in_process"
    PROCESS = "process"
    JOB = "job"


class WorkerExited(Payload):
    """One rank ended without being told to: the signal that a gang is broken. Clean ends are WorkersCompleted.

    With `process_alive` the rank gave up its work and its process goes on: an exception inside a re-executable block,
    or a script that asks for a restart.
    """

    node_id: Name
    instance_id: Name
    job_id: Name
    topology_version: int = Field(ge=1)
    ordinal: int = Field(ge=0)
    """Order of death among this agent's workers of this topology_version, starting at 0."""
    exit: ExitStatus
    error: WorkerError | None = None
    step: int | None = None
    """Last step the rank finished, where it told; None is unknown."""
    checkpoint_step: int | None = None
    """The step this generation was started from; None without a checkpoint."""
    ran_s: float = Field(ge=0)
    stderr_tail: tuple[str, ...] = Field(default=(), max_length=50)
    log_dir: FilePath = ""
    process_alive: bool = False
    """The process lives, and both fields of `exit` are None for that reason."""
    restart_asked: RestartAsked | None = None
    """The script asked for a restart of this level; None: it did not ask."""
    observed_at: At


class WorkersStopped(Payload):
    """All ranks of this node have ended by command or stand at the barrier, or the limit for that passed."""

    node_id: Name
    instance_id: Name
    job_id: Name
    topology_version: int = Field(ge=0)
    operation_id: Name
    exits: tuple[ExitStatus, ...] = Field(default=(), max_length=1_024)
    stuck_pids: tuple[int, ...] = Field(default=(), max_length=1_024)
    """Processes in uninterruptible sleep that SIGKILL did not end in time: reported, not waited for."""
    master_port: int = Field(ge=1, le=65_535)
    at_barrier: tuple[int, ...] = Field(default=(), max_length=1_024)
    """Global ranks whose process lives and waits for a start; every other rank of the node is gone."""
    duration_s: float = Field(ge=0)


class WorkersStarted(Payload):
    """All ranks of this node have been started for a topology_version, or restarted in place."""

    node_id: Name
    instance_id: Name
    job_id: Name
    topology_version: int = Field(ge=1)
    operation_id: Name
    pids: tuple[int, ...] = Field(max_length=1_024)
    source: Name
    """nursery | spawn | in_process (no process is new)."""
    survivors: tuple[int, ...] = Field(default=(), max_length=1_024)
    """Global ranks that went on in the process they had."""
    duration_s: float = Field(ge=0)


class WorkersCompleted(Payload):
    """Every rank of this node ended with exit code 0."""

    node_id: Name
    instance_id: Name
    job_id: Name
    topology_version: int = Field(ge=1)
    completed_at: At


class CommandRefused(Payload):
    """A command was not carried out, and why. Refusals are said aloud, never dropped."""

    node_id: Name
    instance_id: Name
    job_id: Name
    operation_id: Name
    topology_version: int = Field(ge=0)
    code: Name
    """expired | stale | illegal_transition | table_gap | start_failed | too_late | no_worker_link | other_version."""
    message: Sentence


class StepReported(Payload):
    """Progress of a node: the smallest step that all of its ranks finished.

    The first one of a generation is sent at once, later ones at most once a second.
    """

    node_id: Name
    job_id: Name
    topology_version: int = Field(ge=1)
    step: int
    first: bool
    """True for the first step of this generation: the node is training again."""
    reported_at: At


class CheckpointReported(Payload):
    """One rank confirmed that a checkpoint is durable."""

    node_id: Name
    job_id: Name
    topology_version: int = Field(ge=1)
    rank: int = Field(ge=0)
    step: int = Field(ge=0)
    path: FilePath
    kind: Name = "model"
    writers: int | None = Field(default=None, ge=1)
    """How many ranks must confirm this checkpoint. None: every rank that has confirmed one in this job so far."""
    saved_at: At


class RankLabelsReported(Payload):
    """Where a rank stands in the parallel layout (dp, tp, pp and free-form)."""

    node_id: Name
    job_id: Name
    topology_version: int = Field(ge=1)
    rank: int = Field(ge=0)
    labels: dict[str, str] = Field(max_length=32)
