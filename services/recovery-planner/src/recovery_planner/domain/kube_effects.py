"""What the operator decides to do, as values; and the stable words of its conditions and events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class JobCondition(StrEnum):
    """Types of conditions of a TrainingJob."""

    SUSPENDED = "Suspended"
    PODS_READY = "PodsReady"
    """All pods of the gang run; Kueue's word."""
    RUNNING = "Running"
    RECOVERING = "Recovering"
    STALLED = "Stalled"
    """The operator can do nothing until somebody changes something; kstatus' word."""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Reason(StrEnum):
    """Reasons of conditions and of events. Stable: alerts and people match on them."""

    # of Suspended
    SUSPEND_ASKED = "SuspendAsked"
    RESUMED = "Resumed"
    NOT_SUSPENDED = "NotSuspended"
    # of PodsReady
    PODS_STARTING = "PodsStarting"
    ALL_PODS_RUNNING = "AllPodsRunning"
    POD_MISSING = "PodMissing"
    ADMISSION_TIMED_OUT = "AdmissionTimedOut"
    NO_CAPACITY = "NoCapacity"
    # of Running and Recovering
    TRAINING = "Training"
    GANG_FORMING = "GangForming"
    NOT_TRAINING = "NotTraining"
    PLANNER_UNKNOWN = "PlannerUnknown"
    INCIDENT_OPEN = "IncidentOpen"
    WAITING_FOR_NODE = "WaitingForNode"
    NO_INCIDENT = "NoIncident"
    # of Stalled
    ACCEPTED = "Accepted"
    SPEC_INVALID = "SpecInvalid"
    NAME_CONFLICT = "NameConflict"
    FIELD_CONFLICT = "FieldConflict"
    FORBIDDEN = "Forbidden"
    QUOTA_EXCEEDED = "QuotaExceeded"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    # of Succeeded and Failed
    JOB_SUCCEEDED = "JobSucceeded"
    USER_FAULT = "UserFault"
    RESTART_BUDGET = "RestartBudgetUsedUp"
    JOB_FAILED = "JobFailed"
    LAUNCHER_REFUSED = "LauncherRefused"
    POD_FAILURES = "PodFailures"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    CANCELLED = "Cancelled"
    # of events alone
    POD_ADOPTED = "PodAdopted"
    POD_DISRUPTED = "PodDisrupted"
    POD_FAILED = "PodFailed"
    NODE_LOST = "NodeLost"
    NODE_CONDEMNED = "NodeCondemned"
    EXPIRED = "Expired"


class State(StrEnum):
    """One word for the list of `kubectl get`."""

    PENDING = "Pending"
    SUSPENDED = "Suspended"
    STARTING = "Starting"
    RUNNING = "Running"
    RECOVERING = "Recovering"
    BACKING_OFF = "BackingOff"
    STALLED = "Stalled"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TellEvent:
    """An event. The same `cause` is the same event, whoever tells it again."""

    reason: Reason
    warning: bool
    message: str
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteStatus:
    """The whole status, as the operator applies it."""

    status: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplySupport:
    """Headless service and ConfigMap of the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePod:
    """Delete exactly this pod. `grace_s` None: as its own spec says; 0: do not wait for a kubelet."""

    name: str
    uid: str
    grace_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptPod:
    """Take a pod that carries our labels and belongs to nobody."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePod:
    """The pod of this index."""

    index: int
    avoid_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteJob:
    """The job has outlived its time."""

    uid: str


KubeEffect = TellEvent | WriteStatus | ApplySupport | DeletePod | AdoptPod | CreatePod | DeleteJob


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do now, in this order, and when to look again if nothing happens.

    Events stand before the status that remembers them, and the status before what it counts: whoever is killed in
    between does it again, and does not do it twice.
    """

    effects: tuple[KubeEffect, ...]
    status: Mapping[str, Any] = field(default_factory=dict)
    look_at: datetime | None = None
    rule_id: str = ""
    sentence: str = ""
