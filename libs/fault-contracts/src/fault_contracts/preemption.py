"""A node that is about to be taken away, and the checkpoint that the whole gang is asked for before it goes."""

from __future__ import annotations

from pydantic import Field

from fault_contracts.commands import Command
from fault_contracts.payload import At, Name, Payload, Reason, Sentence


class PreemptionNoticed(Payload):
    """The agent was told to go (SIGTERM, or the signal that the user named) while its ranks train. Key: node_id.

    It leaves when its ranks were stopped, or when `within_s` is over.
    """

    node_id: Name
    instance_id: Name
    job_id: Name
    topology_version: int = Field(ge=1)
    at_step: int = Field(ge=0)
    """A step that no rank has reached when the request arrives, as far as this node can tell: its newest finished step
    and a margin for the way. Ranks of a gang are at most one step apart, so it holds for all of them."""
    within_s: float = Field(gt=0, le=86_400)
    """Seconds from now after which the node leaves, checkpoint or not."""
    reason: Sentence
    noticed_at: At


class RequestCheckpoint(Command):
    """Save a checkpoint after `at_step`, all ranks after the same one. Nothing is stopped or started by it."""

    at_step: int = Field(ge=0)
    within_s: float = Field(gt=0, le=86_400)
    """Seconds until the node that gave notice leaves; a checkpoint that is not saved by then is of no use."""
    reason: Reason
