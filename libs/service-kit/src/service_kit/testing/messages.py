"""Small valid messages for tests, sealed with ids that follow from their arguments."""

from __future__ import annotations

from datetime import datetime, timedelta

from fault_contracts.agent import AgentHeartbeat, AgentPhase, StepReported
from fault_contracts.commands import EndJob, LeaderEpoch, StopWorkers
from fault_contracts.envelope import Envelope, seal
from fault_contracts.payload import Fence, Reason
from fault_contracts.recovery import JobOutcome
from service_kit.testing.virtual_clock import EPOCH

SOURCE = "/test"
REASON = Reason(rule_id="test", sentence="a test says so")


def a_step(step: int, *, node_id: str = "node-0", job_id: str = "job", at: datetime = EPOCH) -> Envelope[StepReported]:
    """A stored event, key node_id."""
    payload = StepReported(
        node_id=node_id, job_id=job_id, topology_version=1, step=step, first=step == 0, reported_at=at
    )
    return seal(payload, source=SOURCE, cause_id=f"{node_id}/{job_id}/{step}", time=at)


def a_heartbeat(number: int, *, node_id: str = "node-0", at: datetime = EPOCH) -> Envelope[AgentHeartbeat]:
    """A message that is not stored, key node_id."""
    payload = AgentHeartbeat(
        node_id=node_id,
        instance_id="life-1",
        job_id="job",
        phase=AgentPhase.RUNNING,
        topology_version=1,
        step=number,
    )
    return seal(payload, source=SOURCE, cause_id=f"{node_id}/{number}", time=at)


def a_fence(epoch: int, *, topology_version: int = 1, attempt: int = 0) -> Fence:
    """A fence of one incident."""
    return Fence(topology_version=topology_version, attempt=attempt, incident_id="incident", epoch=epoch)


def a_stop(
    epoch: int, number: int = 0, *, job_id: str = "job", at: datetime = EPOCH, valid_s: float = 60.0
) -> Envelope[StopWorkers]:
    """A command, key job_id."""
    payload = StopWorkers(
        job_id=job_id,
        fence=a_fence(epoch),
        operation_id=f"stop-{number}",
        expires_at=at + timedelta(seconds=valid_s),
        grace_s=0.5,
        reason=REASON,
    )
    return seal(payload, source=SOURCE, cause_id=f"{job_id}/{epoch}/{number}", time=at)


def an_end(epoch: int, *, job_id: str = "job", at: datetime = EPOCH) -> Envelope[EndJob]:
    """The last command of a job."""
    payload = EndJob(
        job_id=job_id,
        fence=a_fence(epoch),
        operation_id="end",
        expires_at=at + timedelta(seconds=60),
        outcome=JobOutcome.SUCCEEDED,
        reason=REASON,
    )
    return seal(payload, source=SOURCE, cause_id=f"{job_id}/{epoch}/end", time=at)


def an_epoch(instance_id: str = "planner-1", *, at: datetime = EPOCH) -> Envelope[LeaderEpoch]:
    """A planner takes the lead."""
    return seal(LeaderEpoch(instance_id=instance_id, taken_at=at), source=SOURCE, cause_id=instance_id, time=at)
