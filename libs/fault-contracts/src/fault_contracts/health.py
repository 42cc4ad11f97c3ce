"""Health of nodes and devices: one observation (signal), and what it means over time (condition). Key: node_id."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from fault_contracts.agent import ExitStatus, RestartAsked, WorkerError
from fault_contracts.payload import At, Excerpt, FilePath, Health, Name, Payload, Sentence


class Component(StrEnum):
    """What a signal is about. Open: an unknown member reads as `other`."""

    PROCESS = "process"
    AGENT = "agent"
    GPU = "gpu"
    DRIVER = "driver"
    NIC = "nic"
    HOST = "host"
    LOG = "log"
    OTHER = "other"

    @classmethod
    def _missing_(cls, value: object) -> Component | None:
        return cls.OTHER if isinstance(value, str) else None


class SignalObserved(Payload):
    """One observation of a device, a node or a process."""

    node_id: Name
    component: Component
    component_id: str = Field(default="", max_length=256)
    """gpu_uuid, PCI address, interface name, pid; empty for the node itself."""
    check: Name
    """Slug of what was looked at, e.g. xid_79, worker_exit, disk_space."""
    health: Health
    detail: Excerpt = ""
    values: dict[str, float] = Field(default_factory=dict, max_length=64)
    job_id: str = Field(default="", max_length=256)
    rank: int | None = None
    source: Name
    observed_at: At


class Tier(StrEnum):
    """A problem is tolerated for a window; a failure is acted on."""

    PROBLEM = "problem"
    FAILURE = "failure"


class WorkerEvidence(Payload):
    """What is known about a rank that ended, carried along so that the judge needs no second look-up."""

    exit: ExitStatus
    ordinal: int = 0
    error: WorkerError | None = None
    step: int | None = None
    checkpoint_step: int | None = None
    ran_s: float = 0.0
    stderr_tail: tuple[str, ...] = Field(default=(), max_length=50)
    restart_asked: RestartAsked | None = None
    """The script asked for a restart of this level: `error` is its wish, not an exception."""


class RankCheck(StrEnum):
    """What was looked at when ranks are found that live and cannot go on (rank_faults.RanksFaulted.check)."""

    PROCESS_STOPPED = "process_stopped"
    PROCESS_BLOCKED = "process_blocked"
    HANG = "hang"
    LOG_RULE = "log_rule"


class FaultedRanks(Payload):
    """What is known about ranks that live and cannot go on, carried along as WorkerEvidence is."""

    rule_id: Name
    """Which rule of the agent decided."""
    ranks: tuple[int, ...] = Field(default=(), max_length=1_024)
    """The suspects; empty when nobody stands out."""
    pid: int | None = None
    """Of the first suspect."""
    step: int | None = None
    checkpoint_step: int | None = None
    evidence_path: FilePath = ""


class ConditionRaised(Payload):
    """A signal that means something. Raised once per (entity, check) until cleared; repeats only count."""

    condition_id: Name
    node_id: Name
    component: Component
    component_id: str = Field(default="", max_length=256)
    check: Name
    tier: Tier
    reason: Sentence
    job_id: str = Field(default="", max_length=256)
    topology_version: int | None = None
    rank: int | None = None
    worker: WorkerEvidence | None = None
    faulted: FaultedRanks | None = None
    signal_ids: tuple[str, ...] = Field(default=(), max_length=64)
    count: int = Field(default=1, ge=1)
    raised_at: At


class ConditionCleared(Payload):
    """The condition is over."""

    condition_id: Name
    node_id: Name
    check: Name
    reason: Sentence
    cleared_at: At
