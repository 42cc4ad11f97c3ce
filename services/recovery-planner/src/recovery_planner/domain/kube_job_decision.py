"""How a decision about a TrainingJob is put together: events, then the status, then the deeds."""

from __future__ import annotations

from datetime import datetime, timedelta

from recovery_planner.domain.kube_effects import Decision, KubeEffect, WriteStatus
from recovery_planner.domain.kube_job_seen import Seen
from recovery_planner.domain.kube_job_spec import JobWish
from recovery_planner.domain.kube_job_status import JobMemory, status_body


def decided(
    wish: JobWish,
    memory: JobMemory,
    seen: Seen,
    *,
    rule_id: str,
    sentence: str,
    events: tuple[KubeEffect, ...] = (),
    then: tuple[KubeEffect, ...] = (),
    look_at: datetime | None = None,
) -> Decision:
    """Events, then the status that remembers them, then the deeds that it counts."""
    status = status_of(wish, memory, seen)
    write: tuple[KubeEffect, ...] = () if status == dict(seen.status or {}) else (WriteStatus(status=status),)
    return Decision(
        effects=(*events, *write, *then), status=status, look_at=look_at, rule_id=rule_id, sentence=sentence
    )


def status_of(wish: JobWish, memory: JobMemory, seen: Seen) -> dict[str, object]:
    """The status that says what is remembered and seen."""
    ready = min(seen.running, wish.nnodes)
    return status_body(memory, job_id=wish.job_id, generation=wish.generation, ready=ready, nnodes=wish.nnodes)


def limits_of(wish: JobWish, memory: JobMemory) -> tuple[datetime | None, ...]:
    """When the job's own deadlines become due."""
    active = None
    if wish.active_s is not None and memory.started_at is not None:
        active = memory.started_at + timedelta(seconds=wish.active_s)
    admission = None
    if memory.admitted_at is None and memory.try_since is not None:
        admission = memory.try_since + timedelta(seconds=wish.admission_s)
    return (active, admission, memory.retry_at)


def later_than(now: datetime, moment: datetime | None) -> datetime | None:
    """A moment that is still to come."""
    return moment if moment is not None and moment > now else None


def earliest(*moments: datetime | None) -> datetime | None:
    """The first of those that are known."""
    return min((each for each in moments if each is not None), default=None)
