"""Reads a JetStream delivery's reply subject, which is also its receipt."""

from __future__ import annotations

from dataclasses import dataclass

ACK, NAK, TERM, IN_PROGRESS = b"+ACK", b"-NAK", b"+TERM", b"+WPI"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Where a message stands in its stream, and how often it has been delivered."""

    stream: str
    stream_sequence: int
    deliveries: int
    stored_ns: str
    """When it was stored; with the sequence it tells a message from one of a stream that was made anew."""


def read_receipt(reply: str) -> Receipt:
    """Parse `$JS.ACK.<stream>.<consumer>.<delivered>.<sseq>.<cseq>.<time>.<pending>`.

    The second form, `$JS.ACK.<domain>.<account>.<stream>...` with 11 or 12 tokens, is read too (nats-server 2.14 on).

    Raises:
        ValueError: neither.
    """
    tokens = reply.split(".")
    if tokens[:2] != ["$JS", "ACK"] or len(tokens) not in (9, 11, 12):
        raise ValueError(f"{reply[:120]!r} is not a JetStream reply subject")
    start = 2 if len(tokens) == 9 else 4
    return Receipt(
        stream=tokens[start],
        deliveries=int(tokens[start + 2]),
        stream_sequence=int(tokens[start + 3]),
        stored_ns=tokens[start + 5],
    )
