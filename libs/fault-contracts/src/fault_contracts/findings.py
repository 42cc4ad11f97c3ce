"""What an agent's signatures found in the output of its ranks: typed facts for the judge, not the output itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from fault_contracts.payload import At, Name, Payload

FINDINGS_MAX = 64
"""In one message; some 60 KB at the most. The judge keeps fewer per rank and needs one."""
EXCERPT_CHARS_MAX = 400
"""Of a line: enough to read it in a verdict."""
CAPTURES_MAX = 16

CaptureText = Annotated[str, Field(max_length=200)]


class LogFinding(Payload):
    """What one signature found on one rank; equal ones are folded into it."""

    kind: Name
    """Slug of docs/findings.md. Open: a judge that does not know it keeps it and reads it by no rule."""
    role: Name
    """cause, symptom, victim, context, unrecognised, progress. Open."""
    signature_id: Name
    rank: int = Field(ge=0)
    pid: int | None = Field(default=None, ge=1)
    """The rank's process, not one that the line speaks of."""
    stream: Name
    """stdout | stderr."""
    device: str = Field(default="", max_length=256)
    """As the line names it."""
    excerpt: str = Field(default="", max_length=EXCERPT_CHARS_MAX)
    """The first such line. Control characters and invalid bytes are replaced."""
    captures: dict[Name, CaptureText] = Field(default_factory=dict, max_length=CAPTURES_MAX)
    count: int = Field(default=1, ge=1)
    """Lines that this one stands for, since the rank was started."""
    ordinal: int = Field(ge=0)
    """Order of the first such line among the findings of this rank's stream; says nothing about other streams."""
    observed_at: At


class FindingsReported(Payload):
    """Findings of the ranks of one node. What was found again is told again with its new count, some time later."""

    node_id: Name
    instance_id: Name
    job_id: Name
    topology_version: int = Field(ge=1)
    findings: tuple[LogFinding, ...] = Field(min_length=1, max_length=FINDINGS_MAX)
    dropped: int = Field(default=0, ge=0)
    """Findings of this generation that were not told: there were too many different ones."""
    reported_at: At
