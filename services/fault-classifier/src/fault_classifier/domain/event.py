"""What can happen to the evidence of a job."""

from __future__ import annotations

from dataclasses import dataclass

from fault_classifier.domain.evidence import Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceSeen:
    """Evidence of one generation."""

    topology_version: int
    piece: Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentSeen:
    """The planner opened an incident: from now on somebody waits for a verdict."""

    topology_version: int
    incident_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentOver:
    """The gang runs again as `topology_version`; verdicts about older ones are no longer waited for."""

    topology_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GangBegun:
    """All nodes of a job are there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOver:
    """The job has ended. Its past counts until a new run begins under its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """Look whether a deadline has passed."""


Event = PieceSeen | IncidentSeen | IncidentOver | GangBegun | JobOver | TimePassed
