"""Health of nodes and devices: one observation (signal), and what it means over time (condition). Key: node_id."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from fault_contracts.agent import ExitStatus, RestartAsked, WorkerError
from fault_contracts.faults import Action, Attribution
from fault_contracts.payload import At, Excerpt, FilePath, Health, Name, Payload, Sentence

AttributeValue = Annotated[str, Field(max_length=512)]
SAMPLES_MAX = 512
"""Samples of one message: 8 GPUs with 40 checks each, and the machine. Some 100 KB, a tenth of what the bus carries."""


class Component(StrEnum):
    """What a signal is about. Open: an unknown member reads as `other`."""

    PROCESS = "process"
    AGENT = "agent"
    GPU = "gpu"
    NVSWITCH = "nvswitch"
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
    attributes: dict[Name, AttributeValue] = Field(default_factory=dict, max_length=32)
    """What names the device and the place of the fault, e.g. xid, pci_bus_id, pid, process, gpu_instance."""
    count: int = Field(default=1, ge=1)
    """Equal observations that this one stands for: a storm is folded where it is seen."""
    old: bool = False
    """Found in a backlog: it happened before anybody watched."""
    boot_id: str = Field(default="", max_length=64)
    """Of the machine (/proc/sys/kernel/random/boot_id); monotonic times and counters start anew with another one."""
    job_id: str = Field(default="", max_length=256)
    rank: int | None = None
    source: Name
    observed_at: At


class Sample(Payload):
    """One line of a sweep: as SignalObserved, with what all lines share left to the message."""

    component: Component
    component_id: str = Field(default="", max_length=256)
    check: Name
    health: Health
    detail: str = Field(default="", max_length=512)
    values: dict[str, float] = Field(default_factory=dict, max_length=16)
    attributes: dict[Name, AttributeValue] = Field(default_factory=dict, max_length=16)
    count: int = Field(default=1, ge=1)
    old: bool = False
    observed_at: At


class SignalsObserved(Payload):
    """What a sweep of a node's collectors found: all that is not ok, or was not a while ago; now and then everything.

    What is left out was ok when last looked at; `phalanx node` asks the agent for the whole table.
    """

    node_id: Name
    instance_id: Name
    """This life of the agent."""
    sweep: int = Field(ge=0)
    """Counts the messages of this life."""
    whole: bool
    """Every check of the node is in it (or in its parts, where it is more than one message)."""
    boot_id: str = Field(default="", max_length=64)
    samples: tuple[Sample, ...] = Field(max_length=SAMPLES_MAX)
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
    place: str = Field(default="", max_length=64)
    """Where the first suspect's stack stands (rank_faults.StalledRank.place); empty: not known."""
    evidence_path: FilePath = ""


class DeviceEvidence(Payload):
    """What is known about a device that a condition blames, carried along so that the judge needs no second look-up."""

    gpu_uuid: str = Field(default="", max_length=256)
    board_serial: str = Field(default="", max_length=256)
    pci_bus_id: str = Field(default="", max_length=64)
    """dddd:bb:dd in lower case."""
    xid: int | None = None
    sxid: int | None = None
    rule_id: Name
    """Row of the policy that weighed it, e.g. xid.79."""
    origin: Attribution
    """Whose fault a single, uncorroborated signal of this kind is: a prior, not a verdict."""
    action: Action
    """What the driver wants, else what the policy says."""
    driver_action: str = Field(default="", max_length=64)
    """The driver's own wish (Xid 154, NVML field 230), e.g. node_reboot; empty: it said nothing."""
    sympathetic: bool = False
    """A consequence of something else: never a root cause."""
    pid: int | None = None
    process: str = Field(default="", max_length=256)
    source: str = Field(default="", max_length=512)
    """Where the policy's row comes from."""


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
    device: DeviceEvidence | None = None
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
