"""The envelope: CloudEvents 1.0 attributes, structured JSON, with ids derived from their cause.

CloudEvents 1.0.2, section "Required attributes"; correlationid and causationid are its correlation extension.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fault_contracts.ids import derived_id as derived_id
from fault_contracts.payload import At, Payload
from fault_contracts.registry import spec_of, spec_of_type
from fault_contracts.subjects import Subject

P = TypeVar("P", bound=Payload)
ENVELOPE_BYTES_MAX = 1_000_000
"""Below nats-server's default max_payload of 1 MB (1,048,576)."""


class EnvelopeError(ValueError):
    """Bytes that are not an envelope of a registered message: what is wrong, and where."""


class Envelope(BaseModel, Generic[P]):
    """One message as it travels and as it is stored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    specversion: str = "1.0"
    id: str = Field(min_length=1, max_length=128)
    source: str = Field(min_length=1, max_length=256)
    type: str
    subject: str
    """The entity (node or job) this is about: the decoded key."""
    time: At
    datacontenttype: str = "application/json"
    correlationid: str = ""
    """The incident, where there is one."""
    causationid: str = ""
    """Id of the message that caused this one."""
    data: P

    def channel(self, cluster: str) -> Subject:
        """The NATS subject of this message."""
        return spec_of(type(self.data)).subject(cluster, self.subject)

    def to_bytes(self) -> bytes:
        """JSON as UTF-8.

        Raises:
            EnvelopeError: larger than ENVELOPE_BYTES_MAX.
        """
        raw = self.model_dump_json().encode()
        if len(raw) > ENVELOPE_BYTES_MAX:
            raise EnvelopeError(f"{self.type} of {len(raw)} bytes is over the limit of {ENVELOPE_BYTES_MAX}")
        return raw


def seal(
    payload: P,
    *,
    source: str,
    cause_id: str,
    time: datetime,
    ordinal: int | str = 0,
    correlation_id: str = "",
    causation_id: str = "",
) -> Envelope[P]:
    """Put a payload into an envelope. `cause_id` and `ordinal` decide the id."""
    spec = spec_of(type(payload))
    key = str(getattr(payload, spec.key))
    envelope: Envelope[P] = _envelope_of(type(payload)).model_construct(
        specversion="1.0",
        id=derived_id(cause_id, spec.type, key, ordinal),
        source=source,
        type=spec.type,
        subject=key,
        time=time,
        datacontenttype="application/json",
        correlationid=correlation_id,
        causationid=causation_id,
        data=payload,
    )
    return envelope


def open_envelope(raw: bytes, expected: type[Payload] | None = None) -> Envelope[Any]:
    """Decode and validate one envelope with the model its type names.

    `expected`: what the message most likely carries, as its subject says; it saves reading the message twice.

    Raises:
        EnvelopeError: too large, not JSON, an unknown type, or a payload that does not validate.
    """
    if len(raw) > ENVELOPE_BYTES_MAX:
        raise EnvelopeError(f"{len(raw)} bytes are over the limit of {ENVELOPE_BYTES_MAX}")
    likely = None if expected is None else _as_expected(raw, expected)
    if likely is not None:
        return likely
    try:
        head = _Head.model_validate_json(raw)
        spec = spec_of_type(head.type)
        if spec is None:
            raise EnvelopeError(f"type {head.type[:100]!r} is not registered in this version")
        if head.specversion != "1.0":
            raise EnvelopeError(f"specversion {head.specversion[:20]!r}; 1.0 is understood")
        envelope = _envelope_of(spec.model).model_validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "(whole)"
        raise EnvelopeError(f"at {place}: {first['msg']} ({error.error_count()} errors)") from error
    if str(getattr(envelope.data, spec.key)) != envelope.subject:
        raise EnvelopeError(f"subject {envelope.subject[:80]!r} is not the payload's {spec.key}")
    return envelope


def _as_expected(raw: bytes, model: type[Payload]) -> Envelope[Any] | None:
    """The envelope, when it is a good one of this model; otherwise its own type says what is wrong."""
    try:
        envelope = _envelope_of(model).model_validate_json(raw)
    except ValidationError:
        return None
    spec = spec_of(model)
    fits = envelope.type == spec.type and envelope.specversion == "1.0"
    return envelope if fits and str(getattr(envelope.data, spec.key)) == envelope.subject else None


@cache
def _envelope_of(model: type[Payload]) -> type[Envelope[Any]]:
    """Asking the generic class costs 20 us each time, more than decoding."""
    return Envelope[model]  # type: ignore[valid-type]


class _Head(BaseModel):
    specversion: str
    type: str
