"""A message that could not be handled, kept and visible."""

from __future__ import annotations

from pydantic import Field

from fault_contracts.payload import At, Excerpt, Name, Payload, Sentence


class DeadLettered(Payload):
    """What was wrong with a message, who refused it, and its body."""

    consumer: Name
    subject: Name
    stream: str = ""
    stream_sequence: int | None = None
    deliveries: int = Field(default=1, ge=1)
    error: Name
    """ContractViolation | PermanentError | ... : the class."""
    message: Sentence
    body: Excerpt = ""
    """The first 8 KB, decoded with replacement; the whole body stays in the stream named above."""
    body_bytes: int = Field(ge=0)
    refused_at: At
