"""What is ordered of a machine, and what came of it. Key: node_id."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from fault_contracts.payload import At, Excerpt, Name, Payload, Reason


class NodeAction(StrEnum):
    """What the host role can be told to do. Closed."""

    VALIDATE = "validate"
    RESET_GPU = "reset_gpu"
    REBOOT = "reboot"
    DRAIN = "drain"


class ActionOutcome(StrEnum):
    """How an order ended. Closed."""

    DONE = "done"
    REFUSED = "refused"
    """Nothing was touched; the reason says why."""
    FAILED = "failed"
    """It was tried."""
    DRY_RUN = "dry_run"
    """Shown, not done."""


class OrderNodeAction(Payload):
    """One order to one machine.

    The fence: an agent of another boot or of another life than the one that was meant refuses it.
    """

    node_id: Name
    operation_id: Name
    """Stable over retries: a repeat is answered with the stored outcome."""
    action: NodeAction
    boot_id: str = Field(default="", max_length=64)
    """Empty: whatever boot it is in."""
    instance_id: str = Field(default="", max_length=256)
    """Empty: whatever life of the agent."""
    gpu_uuid: str = Field(default="", max_length=256)
    dry_run: bool = False
    asked_by: Name
    """Who: a person's name, or recovery-planner."""
    reason: Reason
    expires_at: At


class NodeActionReported(Payload):
    """What came of an order."""

    node_id: Name
    instance_id: Name
    operation_id: Name
    action: NodeAction
    outcome: ActionOutcome
    gpu_uuid: str = Field(default="", max_length=256)
    """Which GPU, for what is done to one: what a reset ends is ended for it alone."""
    reason: Reason
    commands: tuple[str, ...] = Field(default=(), max_length=64)
    """What was run, or would be."""
    output: Excerpt = ""
    """The end of what they printed, or the report of a validation (JSON)."""
    boot_id: str = Field(default="", max_length=64)
    finished_at: At
