"""What can happen to the evidence of a job."""

from __future__ import annotations

from dataclasses import dataclass

from fault_classifier.domain.evidence import Piece, Surrounding
from fault_classifier.domain.log_row import LogRow


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceSeen:
    """Evidence of one generation."""

    topology_version: int
    piece: Piece


@dataclass(frozen=True, slots=True, kw_only=True)
class LinesSeen:
    """Signatures found something in the output of a generation's ranks.

    Attributes:
        dropped: findings that their agent had no room for.
    """

    topology_version: int
    rows: tuple[LogRow, ...]
    dropped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SurroundingsSeen:
    """Something around the job: it changes a verdict that is due or out, and asks for none by itself."""

    topology_version: int
    surroundings: tuple[Surrounding, ...]


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
    """All nodes of a job are there; `nodes` names them."""

    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOver:
    """The job has ended. Its past counts until a new run begins under its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimePassed:
    """Look whether a deadline has passed."""


Event = PieceSeen | LinesSeen | SurroundingsSeen | IncidentSeen | IncidentOver | GangBegun | JobOver | TimePassed
