"""What happens to a message whose handler failed: tried again after a wait, or put on the dead-letter subject.

Pure, and the same for the real bus and its fake. A message is tried again while its key waits, so that the order of one
node or one job holds; other keys go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from fault_contracts.dead_letter import DeadLettered
from fault_contracts.envelope import Envelope, EnvelopeError, open_envelope, seal
from fault_contracts.payload import LONG_TEXT_MAX, SHORT_TEXT_MAX, Payload
from fault_contracts.registry import spec_of_type
from fault_contracts.subjects import Kind, Subject, SubjectError, parse_subject
from service_kit.errors import BusUnavailable, CompareAndSetLost, ContractViolation, PermanentError, TransientError

BACKOFF_S = (0.05, 0.25, 1.0, 5.0)
"""Waits after the first, second, ... failed try. The first is short: a lost compare-and-set or an election's last
moment is over at once; the sum stays well below the streams' duplicate window (600 s)."""
TRIES_MAX = 5
"""A message that failed so often fails for ever."""
BUS_TRIES_MAX = 60
"""A bus or a store that does not answer says nothing about the message: a stream without a leader is no reason to lose
the death of a rank. Five minutes of waiting, inside the streams' duplicate window; then an operator must look."""
RETRY_AFTER_S_MAX = 30.0
SENTENCE_MAX = 2_048


@dataclass(frozen=True, slots=True, kw_only=True)
class TryAgain:
    """After `wait_s`."""

    wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """Dead-letter it; `error` is the class's name, `message` what was wrong."""

    error: str
    message: str


def judge_failure(error: Exception, *, tries: int) -> TryAgain | GiveUp:
    """Decide on a failed try.

    Args:
        error: what the handler (or the decoding) raised.
        tries: how often the message has been tried, this one included.
    """
    give_up = GiveUp(error=type(error).__name__[:SHORT_TEXT_MAX], message=str(error)[:SENTENCE_MAX])
    if isinstance(error, EnvelopeError):
        return GiveUp(error=ContractViolation.__name__, message=str(error)[:SENTENCE_MAX])
    tries_max = BUS_TRIES_MAX if isinstance(error, BusUnavailable) else TRIES_MAX
    if isinstance(error, PermanentError) or tries >= tries_max:
        return give_up
    wait_s = BACKOFF_S[min(tries, len(BACKOFF_S)) - 1]
    if isinstance(error, TransientError) and error.retry_after_s is not None:
        wait_s = min(max(error.retry_after_s, 0.0), RETRY_AFTER_S_MAX)
    return TryAgain(wait_s=wait_s)


def message_id(cluster: str, envelope: Envelope[Any]) -> str:
    """What the stream dedupes by. A stream compares ids over all its subjects, so the cluster belongs to it."""
    return f"{cluster}/{envelope.id}"


def is_bug(error: Exception) -> bool:
    """Whether a handler failed in a way that it does not declare: worth a traceback."""
    return not isinstance(error, (TransientError, PermanentError, CompareAndSetLost, EnvelopeError))


def decode(raw: bytes, subject: str) -> Envelope[Any]:
    """Decode a message and check that it travelled on its own subject.

    Raises:
        EnvelopeError: undecodable, or on a foreign subject.
    """
    envelope = open_envelope(raw, _model_of(subject))
    try:
        came_on = parse_subject(subject)
        belongs_on = envelope.channel(came_on.cluster)
    except SubjectError as error:
        raise EnvelopeError(str(error)) from error
    if came_on.kind is Kind.GO:
        came_on = Subject(
            kind=Kind.CMD,
            context=came_on.context,
            name=came_on.name,
            version=came_on.version,
            cluster=came_on.cluster,
            key=came_on.key,
        )
    if came_on != belongs_on:
        raise EnvelopeError(f"{envelope.type} of {envelope.subject[:80]!r} came on {subject[:200]}")
    return envelope


@lru_cache(maxsize=16_384)
def _model_of(subject: str) -> type[Payload] | None:
    """What a subject carries; None: nothing that is registered."""
    try:
        parsed = parse_subject(subject)
    except SubjectError:
        return None
    kind = Kind.CMD if parsed.kind is Kind.GO else parsed.kind
    spec = spec_of_type(f"{kind}.{parsed.context}.{parsed.name}.v{parsed.version}")
    return None if spec is None else spec.model


def dead_letter(
    give_up: GiveUp,
    raw: bytes,
    *,
    consumer: str,
    source: str,
    subject: str,
    stream: str,
    stream_sequence: int | None,
    deliveries: int,
    now: datetime,
) -> Envelope[DeadLettered]:
    """The message about a message. Its id follows from consumer and place, so that it is stored once."""
    cause_id = f"{stream}:{stream_sequence}" if stream_sequence else blake2b(raw, digest_size=16).hexdigest()
    payload = DeadLettered(
        consumer=consumer[:SHORT_TEXT_MAX],
        subject=subject[:SHORT_TEXT_MAX] or "?",
        stream=stream,
        stream_sequence=stream_sequence,
        deliveries=max(1, deliveries),
        error=give_up.error,
        message=give_up.message,
        body=raw[:LONG_TEXT_MAX].decode(errors="replace")[:LONG_TEXT_MAX],
        body_bytes=len(raw),
        refused_at=now,
    )
    return seal(payload, source=source, cause_id=cause_id, time=now, ordinal=consumer)
