"""What the planner orders. Stored in the control stream, republished to the agents. Key: job_id."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from fault_contracts.checkpoints import CheckpointRef as CheckpointRef
from fault_contracts.payload import At, Fence, Name, Payload, Reason
from fault_contracts.recovery import JobOutcome, NodeAssignment
from fault_contracts.recovery_level import RecoveryLevel


class Command(Payload):
    """What every order carries: the fence, the stable id of the operation over retries, and its end of validity."""

    job_id: Name
    fence: Fence
    operation_id: Name
    expires_at: At


class StopMode(StrEnum):
    """How ranks stop. Closed."""

    PROCESS = "process"
    """Their processes end."""
    IN_PROCESS = "in_process"
    """They leave their re-executable block and wait at the barrier; a rank that cannot is ended."""


class StopWorkers(Command):
    """Stop every rank of the topology_version in the fence and of any older one."""

    grace_s: float = Field(ge=0)
    mode: StopMode = StopMode.PROCESS
    ranks: tuple[int, ...] | None = Field(default=None, max_length=1_024)
    """Condemned ranks (hung, blamed): their processes are ended at once, without grace, in both modes. None: no rank
    is condemned. In process mode all other ranks end as well, with the grace."""
    barrier_s: float = Field(default=10.0, gt=0, le=3_600)
    """In-process mode: a rank that is not at the barrier by then is ended."""
    reason: Reason


class StartWorkers(Command):
    """Start the ranks of the fence's topology_version."""

    base_version: int = Field(ge=0)
    """The version that `rows` is a delta to; an agent that holds another reads the whole table (gangs bucket)."""
    rows: tuple[NodeAssignment, ...] = ()
    rows_packed: str = Field(default="", max_length=900_000)
    """More than `rows` may carry (training_topology.packed_rows); one of the two is empty."""
    nnodes: int = Field(ge=1)
    world_size: int = Field(ge=1)
    master_addr: Name
    master_port: int = Field(ge=1, le=65_535)
    """A fresh store address for every topology_version."""
    checkpoint: CheckpointRef | None = None
    restart_count: int = Field(ge=0)
    level: RecoveryLevel
    ranks_replaced: tuple[int, ...] | None = None
    """Which processes are replaced: None is all of them. With level in_process: these ranks get a new process, and the
    others restart in place; a rank that an agent finds gone is replaced as well."""
    reason: Reason | None = None
    """Why the ranks before these ended, for the person at the terminal. None: nothing broke before."""


class EndJob(Command):
    """The job is over: stop what runs, say why, leave with the exit code of the outcome."""

    outcome: JobOutcome
    reason: Reason
    summary: str = Field(default="", max_length=2_048)


class LeaderEpoch(Payload):
    """A planner took the lead. The sequence of this message is the epoch that fences its commands."""

    role: Name = "planner"
    """One subject for all planners: the newest message on it is the leader."""
    instance_id: Name
    taken_at: At
