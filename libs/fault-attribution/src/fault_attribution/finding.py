"""A typed fact about an incident: read from a line, told by an agent, or derived from other findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fault_attribution.evidence_line import Source

TEXT_MAX = 400
"""Characters of a line that a finding keeps."""
CAPTURE_MAX = 200


class Role(StrEnum):
    """What a finding can be in an incident."""

    CAUSE = "cause"
    """It may be the root cause by itself."""
    SYMPTOM = "symptom"
    """Something failed here; it may follow from something else."""
    VICTIM = "victim"
    """It says that another one failed: a peer closed, a store is gone."""
    BENIGN = "benign"
    """It looks bad and is harmless."""
    CONTEXT = "context"
    """Neutral: a setting, a version, a phase, a measured value."""
    PROGRESS = "progress"
    """Work goes on: a step, an epoch, a saved checkpoint."""
    UNRECOGNISED = "unrecognised"
    """It looks like an error and no signature knows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fact.

    Attributes:
        finding_id: unique in the incident; a verdict names it as evidence.
        kind: slug, e.g. cuda_oom, xid_79, missing_rank; the words of rules.
        node, rank: where; empty and None are unknown.
        device: PCI address, uuid or index of a GPU, name of an interface; empty: no device.
        process: pid as text; empty is unknown.
        captures: what a signature's groups caught, and what a derivation counted.
        text: the line, or a sentence about a derived fact.
        rule_id: signature or derivation that found it.
        at_s, stream, number: as in EvidenceLine.
        count: equal ones folded into this one.
        because: for a derived finding: the ids of those it rests on.
    """

    finding_id: str
    kind: str
    role: Role
    source: Source = Source.UNKNOWN
    node: str = ""
    rank: int | None = None
    device: str = ""
    process: str = ""
    captures: Mapping[str, str] = field(default_factory=dict)
    text: str = ""
    rule_id: str = ""
    at_s: float | None = None
    stream: str = ""
    number: int = 0
    count: int = 1
    because: tuple[str, ...] = ()

    def number_of(self, name: str) -> float | None:
        """A capture as a number; None when it is absent or none."""
        try:
            return float(self.captures[name].replace(",", "").rstrip("%sx"))
        except (KeyError, ValueError):
            return None

    @property
    def place(self) -> tuple[str, int, str, str, str]:
        """A stable order that depends on no clock and no arrival, for ties."""
        return (self.node, -1 if self.rank is None else self.rank, self.device, self.kind, self.finding_id)
