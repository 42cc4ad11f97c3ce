"""What the fake server remembers: messages, who reads them, and what a dead reader left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from fault_contracts.registry import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """What goes wrong, as probabilities per message.

    Attributes:
        publish_lost: a publish fails; half of these had been stored (the acknowledgement was lost).
        dropped: a delivery does not arrive. Stored messages come again after ack_wait, others are gone.
        duplicated: a delivery comes twice (stored: the acknowledgement was lost, so after ack_wait).
        delay_s_max: each delivery takes up to this long; keys overtake each other, one key keeps its order.
        reordered: a plain subscription's message is held back so that the next one of its key overtakes it.
    """

    publish_lost: float = 0.0
    dropped: float = 0.0
    duplicated: float = 0.0
    delay_s_max: float = 0.0
    reordered: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A stored message."""

    stream: Stream
    sequence: int
    subject: str
    body: bytes
    stored_s: float


@dataclass(slots=True, kw_only=True, eq=False)
class Receiver:
    """A consumer process of a durable, or a plain subscription."""

    owner: str
    patterns: tuple[str, ...]
    take: Callable[[Record, int], None]
    share: str = ""
    """Of plain subscriptions with the same name here, one gets each message."""
    in_hand: dict[tuple[Stream, int], int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True, eq=False)
class Orphan:
    """What a killed reader had in hand: comes again after ack_wait, unless a new reader claims it before."""

    record: Record
    claimed: bool = False


@dataclass(slots=True, kw_only=True)
class Durable:
    """What the server remembers of a consumer: what is still to be delivered, and how often it has been."""

    patterns: tuple[str, ...]
    waiting: list[tuple[Record, int]] = field(default_factory=list)
    receivers: list[Receiver] = field(default_factory=list)
    orphans: list[Orphan] = field(default_factory=list)


@lru_cache(maxsize=65_536)
def matches(patterns: tuple[str, ...], subject: str) -> bool:
    """Whether a subject is one of those that the patterns name."""
    tokens = subject.split(".")
    for pattern in patterns:
        wanted = pattern.split(".")
        if len(wanted) == len(tokens) and all(w in ("*", t) for w, t in zip(wanted, tokens, strict=True)):
            return True
    return False
