"""What is wrong with a message that no handler would ever meet. Pure.

A durable consumer sees only what its filters name. Garbage elsewhere (an unknown type, a subject with a token too many,
a broken command for a job that nobody runs) would lie in a stream, or pass by, and nobody would know.
"""

from __future__ import annotations

from functools import lru_cache

from fault_contracts.asks import ASKS
from fault_contracts.envelope import EnvelopeError
from fault_contracts.registry import DURABLY_READ, STREAMS, MessageSpec, Stream, spec_of_type
from fault_contracts.subjects import Kind, Subject, SubjectError, parse_subject
from service_kit.delivery import decode

AUDITED = (Stream.HEALTH, Stream.AGENTS, Stream.FAULTS, Stream.CONTROL, Stream.JOURNAL)
"""Not DLQ: a letter about a letter would have a letter of its own. `phalanx dlq` shows unreadable ones as such."""
_SUBJECTS_CACHED = 16_384

_ASKED = {ask.what for ask in ASKS}


def stored_problem(raw: bytes, subject: str, *, cluster: str) -> str | None:
    """What is wrong with a stored message, None when it is well, another cluster's, or its consumer's business."""
    problem, spec = _place(subject, cluster)
    if problem is not None or spec is None or spec.model in DURABLY_READ:
        return problem
    try:
        decode(raw, subject)
    except EnvelopeError as error:
        return str(error)
    return None


@lru_cache(maxsize=_SUBJECTS_CACHED)
def passing_problem(subject: str, cluster: str) -> str | None:
    """What is wrong with the subject of a message that passes by; what a stream keeps is judged there."""
    try:
        parsed = parse_subject(subject)
    except SubjectError as error:
        return None if _is_kept(subject) else str(error)
    if parsed.kind is Kind.ASK:
        known = parsed.context in _ASKED and parsed.name == "asked" and parsed.version == 1
        return None if known or parsed.cluster != cluster else f"nobody answers {parsed.context!r}: not registered"
    return None if _is_kept(subject) else _place(subject, cluster)[0]


def _is_kept(subject: str) -> bool:
    return any(subject.startswith(kept.removesuffix(">")) for stream in STREAMS for kept in stream.subjects)


@lru_cache(maxsize=_SUBJECTS_CACHED)
def _place(subject: str, cluster: str) -> tuple[str | None, MessageSpec | None]:
    """The problem of a subject, and the registration of what belongs on it."""
    try:
        parsed = parse_subject(subject)
    except SubjectError as error:
        return str(error), None
    if parsed.cluster != cluster:
        return None, None
    spec = spec_of_type(_type_of(parsed))
    if spec is None:
        return f"type {_type_of(parsed)[:200]!r} is not registered in this version", None
    return None, spec


def _type_of(subject: Subject) -> str:
    kind = Kind.CMD if subject.kind is Kind.GO else subject.kind
    return f"{kind}.{subject.context}.{subject.name}.v{subject.version}"
