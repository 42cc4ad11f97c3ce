"""The verdict: whose fault it is, and why. Key: job_id."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from fault_contracts.payload import At, Excerpt, Name, Payload, Reason, Sentence


class Attribution(StrEnum):
    """Whose fault. Closed: it steers the planner."""

    HARDWARE = "hardware"
    DRIVER = "driver"
    PLATFORM = "platform"
    USER = "user"
    UNKNOWN = "unknown"


class Action(StrEnum):
    """What the judge recommends. Closed: it steers the planner."""

    RESTART_PROCESS = "restart_process"
    RESTART_JOB = "restart_job"
    RESET_GPU = "reset_gpu"
    REBOOT_NODE = "reboot_node"
    REPLACE_NODE = "replace_node"
    DONT_RETRY_NOTIFY_USER = "dont_retry_notify_user"
    WAIT_OR_IGNORE = "wait_or_ignore"


class Culprit(Payload):
    """Who caused it; None where it is unknown or does not apply."""

    node_id: str | None = Field(default=None, max_length=256)
    rank: int | None = None
    gpu_uuid: str | None = Field(default=None, max_length=256)
    process: str | None = Field(default=None, max_length=256)


class Alternative(Payload):
    """Another hypothesis: what it would be, how likely, and the best that speaks for it."""

    attribution: Attribution
    cause: Name
    confidence: float = Field(ge=0, le=1)
    action: Action
    reason: Reason


class FaultClassified(Payload):
    """One attributed fault of one job. A later one about the same generation names the one that it replaces."""

    fault_id: Name
    job_id: Name
    topology_version: int = Field(ge=0)
    attribution: Attribution
    cause: Name
    """Slug from docs/causes.md."""
    culprit: Culprit = Culprit()
    confidence: float = Field(ge=0, le=1)
    action: Action
    reasons: tuple[Reason, ...] = Field(min_length=1, max_length=32)
    counter_evidence: tuple[Reason, ...] = Field(default=(), max_length=32)
    summary: Excerpt
    """One paragraph that a person woken at night understands."""
    condition_ids: tuple[str, ...] = Field(default=(), max_length=64)
    alternatives: tuple[Alternative, ...] = Field(default=(), max_length=4)
    """The next best hypotheses, likeliest first. Where the attribution is unknown, the best one is among them."""
    decide: tuple[Sentence, ...] = Field(default=(), max_length=8)
    """What evidence would settle it."""
    provisional: bool = False
    """Evidence is still coming in: good enough to stop a gang, not to end a job or to give up a node. A final one
    that names it follows within the judge's limits, also when it says the same."""
    supersedes: str | None = None
    """fault_id of the verdict that this one replaces."""
    classified_at: At
