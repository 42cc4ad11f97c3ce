"""How long the ranks of a node take for their steps, window by window. Key: node_id.

Not stored: an old window says nothing about now, and thousands of nodes would push reports that matter out of their
stream. A window that is lost is unknown.
"""

from __future__ import annotations

from pydantic import Field

from fault_contracts.payload import At, Name, Payload

STRAGGLER_CHECK = "straggler"
"""The check of the condition that these times raise: a rank is slower than its peers. Tier problem, never failure."""


class RankStepTimes(Payload):
    """Times of one rank in one window. Spreads are median absolute deviations, scaled to standard deviations."""

    rank: int = Field(ge=0)
    local_rank: int = Field(ge=0)
    count: int = Field(ge=1)
    """Steps behind `median_s`."""
    median_s: float = Field(ge=0)
    """Of whole steps. Ranks that wait for each other have equal ones, whoever is slow."""
    spread_s: float = Field(ge=0)
    busy_count: int = Field(default=0, ge=0)
    """Steps of which the rank's own work is known."""
    busy_median_s: float | None = Field(default=None, ge=0)
    """Of own work, without the wait for other ranks; None: the script does not tell it."""
    busy_spread_s: float | None = Field(default=None, ge=0)
    peers: str = Field(default="", max_length=256)
    """Ranks with the same text here do the same work and can be compared; empty: nothing is known of that."""


class StepTimesReported(Payload):
    """One window of steps on one node."""

    node_id: Name
    instance_id: Name
    job_id: Name
    topology_version: int = Field(ge=1)
    world_size: int = Field(ge=1)
    """Ranks of the gang over all nodes: with so many the window is complete."""
    window: int = Field(ge=0)
    """Windows of this node and topology_version, counted from 0."""
    first_step: int = Field(ge=0)
    last_step: int = Field(ge=0)
    duration_s: float = Field(ge=0)
    ranks: tuple[RankStepTimes, ...] = Field(max_length=1_024)
    reported_at: At
