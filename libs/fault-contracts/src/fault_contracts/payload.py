"""The base of all payloads, and the small values that several messages share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

SHORT_TEXT_MAX = 256
LONG_TEXT_MAX = 8_192
"""A sentence or an excerpt. The bus carries at most 1 MB a message (nats-server's max_payload default)."""
PATH_MAX = 4_096
"""PATH_MAX of Linux (linux/limits.h)."""

Name = Annotated[str, Field(min_length=1, max_length=SHORT_TEXT_MAX)]
Sentence = Annotated[str, Field(max_length=2_048)]
Excerpt = Annotated[str, Field(max_length=LONG_TEXT_MAX)]
FilePath = Annotated[str, Field(max_length=PATH_MAX)]
At = AwareDatetime


class Payload(BaseModel):
    """What an envelope carries. Frozen; unknown fields are ignored, so an additive change keeps its version.

    NaN and infinity are no measurements: JSON does not have them (they would be written as null, which nobody can read
    again), and every comparison with NaN is silently false.
    """

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True, allow_inf_nan=False)


class Health(StrEnum):
    """Health of anything. Silence is unknown, never ok."""

    OK = "ok"
    BAD = "bad"
    UNKNOWN = "unknown"


class Reason(Payload):
    """One reason behind a decision, as data."""

    rule_id: Name
    sentence: Sentence
    evidence_ids: tuple[str, ...] = Field(default=(), max_length=64)
    weight: float | None = Field(default=None, ge=-100, le=100)
    """Weight of evidence: natural logarithm of a likelihood ratio, below 0 where it speaks against; None where nothing
    was weighed."""


class Fence(Payload):
    """What makes a command obeyable once, and only by the newest plan. Compared in this order."""

    topology_version: int = Field(ge=0)
    attempt: int = Field(ge=0)
    incident_id: str = Field(max_length=SHORT_TEXT_MAX)
    """Empty for the first start of a job, which no incident caused."""
    epoch: int = Field(ge=0)
    """Stream sequence of the leader's epoch message; the server refuses commands of an older one."""
