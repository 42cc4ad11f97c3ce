"""The status of a TrainingJob: what the operator remembers in it, and its conditions.

Everything that the operator has to remember stands here, so that another one goes on where it was killed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from recovery_planner.domain.kube_effects import JobCondition, Reason, State
from recovery_planner.domain.kube_pods import read_time

COUNTED_MAX = 64
"""uids of failed pods that are remembered, so that one is not counted twice: more than the largest sensible budget of
pods that can be there at once and are not deleted yet."""
AVOIDED_MAX = 32
AVOIDED_FOR_S = 1_800.0
"""Nodes that new pods are kept away from by name, and how long: by then the node is tainted, or it was repaired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobMemory:
    """What was decided before.

    Attributes:
        tries: times that all nodes were asked for, the present one included; 0: none yet.
        try_since: when the present one began.
        admitted_at: when all nodes of the gang ran, in this try.
        retry_at: nothing is created before.
        pod_failures, counted: pods that failed, and the uids of the newest.
        avoided: nodes that new pods are kept away from, and since when.
    """

    conditions: tuple[Mapping[str, Any], ...] = ()
    tries: int = 0
    try_since: datetime | None = None
    admitted_at: datetime | None = None
    retry_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    pod_failures: int = 0
    counted: tuple[str, ...] = ()
    avoided: Mapping[str, datetime] = field(default_factory=dict)
    restarts: int = 0
    last_fault: str = ""
    step: int | None = None

    def condition(self, type_: JobCondition) -> Mapping[str, Any]:
        """The condition of this type; empty when there is none."""
        return next((each for each in self.conditions if each.get("type") == type_), {})

    def holds(self, type_: JobCondition) -> bool:
        """It is there, and True."""
        return self.condition(type_).get("status") == "True"

    @property
    def finished(self) -> bool:
        """Succeeded or failed: for good."""
        return self.holds(JobCondition.SUCCEEDED) or self.holds(JobCondition.FAILED)

    def new_try(self, now: datetime) -> JobMemory:
        """All nodes are asked for again."""
        return replace(self, tries=self.tries + 1, try_since=now, admitted_at=None, retry_at=None)

    def given_back(self, retry_at: datetime | None) -> JobMemory:
        """All pods go; the next try begins then."""
        return replace(self, try_since=None, admitted_at=None, retry_at=retry_at)

    def with_failures(self, uids: tuple[str, ...], retry_at: datetime) -> JobMemory:
        """So many more pods failed."""
        counted = (*self.counted, *uids)[-COUNTED_MAX:]
        return replace(self, pod_failures=self.pod_failures + len(uids), counted=counted, retry_at=retry_at)

    def avoiding(self, nodes: list[str], now: datetime) -> JobMemory:
        """These as well; those whose time is over no longer."""
        kept = {name: at for name, at in self.avoided.items() if (now - at).total_seconds() < AVOIDED_FOR_S}
        newest = {**{name: now for name in nodes if name not in kept}, **kept}
        return replace(self, avoided=dict(list(newest.items())[:AVOIDED_MAX]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """What one condition is to say."""

    type: JobCondition
    holds: bool
    reason: Reason
    message: str = ""


def read_memory(status: Mapping[str, Any] | None) -> JobMemory:
    """From the status of the object."""
    known = status or {}
    return JobMemory(
        conditions=tuple(known.get("conditions") or ()),
        tries=int(known.get("tries", 0)),
        try_since=read_time(known.get("trySince")),
        admitted_at=read_time(known.get("admittedTime")),
        retry_at=read_time(known.get("retryTime")),
        started_at=read_time(known.get("startTime")),
        ended_at=read_time(known.get("completionTime")),
        pod_failures=int(known.get("podFailures", 0)),
        counted=tuple(known.get("countedPods") or ()),
        avoided={str(e["name"]): at for e in known.get("avoidedNodes") or () if (at := read_time(e.get("since")))},
        restarts=int(known.get("restarts", 0)),
        last_fault=str(known.get("lastFault", "")),
        step=known.get("step"),
    )


def said(memory: JobMemory, words: tuple[Word, ...], *, generation: int, now: datetime) -> JobMemory:
    """With these conditions; the others stay. A transition time moves when the status does, and only then."""
    by_type = {str(each["type"]): each for each in memory.conditions}
    for word in words:
        status = "True" if word.holds else "False"
        before = by_type.get(word.type, {})
        moved = before.get("status") != status
        by_type[str(word.type)] = {
            "type": str(word.type),
            "status": status,
            "reason": str(word.reason),
            "message": word.message,
            "observedGeneration": generation,
            "lastTransitionTime": api_time(now) if moved else before["lastTransitionTime"],
        }
    order = list(JobCondition)
    return replace(memory, conditions=tuple(sorted(by_type.values(), key=lambda each: order.index(each["type"]))))


def status_body(memory: JobMemory, *, job_id: str, generation: int, ready: int, nnodes: int) -> dict[str, Any]:
    """The whole status, as it is applied. Fields without a value are left out."""
    times = {
        "trySince": memory.try_since,
        "admittedTime": memory.admitted_at,
        "retryTime": memory.retry_at,
        "startTime": memory.started_at,
        "completionTime": memory.ended_at,
    }
    body: dict[str, Any] = {
        "observedGeneration": generation,
        "state": str(state_of(memory)),
        "jobId": job_id,
        "ready": f"{ready}/{nnodes}",
        "readyNodes": ready,
        "restarts": memory.restarts,
        "tries": memory.tries,
        "podFailures": memory.pod_failures,
        "conditions": [dict(each) for each in memory.conditions],
        **{name: api_time(at) for name, at in times.items() if at is not None},
    }
    if memory.counted:
        body["countedPods"] = list(memory.counted)
    if memory.avoided:
        body["avoidedNodes"] = [{"name": name, "since": api_time(at)} for name, at in sorted(memory.avoided.items())]
    if memory.last_fault:
        body["lastFault"] = memory.last_fault
    if memory.step is not None:
        body["step"] = memory.step
    return body


def state_of(memory: JobMemory) -> State:
    """One word, the gravest first."""
    table = (
        (JobCondition.SUCCEEDED, State.SUCCEEDED),
        (JobCondition.FAILED, State.FAILED),
        (JobCondition.SUSPENDED, State.SUSPENDED),
        (JobCondition.RECOVERING, State.RECOVERING),
        (JobCondition.RUNNING, State.RUNNING),
        (JobCondition.STALLED, State.STALLED),
    )
    for type_, state in table:
        if memory.holds(type_):
            return state
    if memory.retry_at is not None and memory.try_since is None:
        return State.BACKING_OFF
    return State.STARTING if memory.try_since is not None else State.PENDING


def api_time(at: datetime) -> str:
    """As the API server writes it: whole seconds, UTC."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
