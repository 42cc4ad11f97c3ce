"""What an agent did by itself while no planner could be heard. Key: node_id."""

from __future__ import annotations

from pydantic import Field

from fault_contracts.agent import ExitStatus
from fault_contracts.payload import At, Name, Payload, Reason


class AgentActedAlone(Payload):
    """The agent stopped its ranks by its local policy. Kept in its outbox, and sent when the bus is back."""

    node_id: Name
    instance_id: Name
    job_id: Name
    topology_version: int = Field(ge=1)
    policy: Name
    """--on-planner-lost: keep | stop."""
    silent_s: float = Field(ge=0)
    """Since the last sign of a planner, when it acted."""
    exits: tuple[ExitStatus, ...] = Field(default=(), max_length=1_024)
    """How the ranks ended that it stopped. Those that had died before have their own WorkerExited."""
    stuck_pids: tuple[int, ...] = Field(default=(), max_length=1_024)
    """Processes that SIGKILL did not end in time; they may still hold a GPU."""
    reason: Reason
    acted_at: At
