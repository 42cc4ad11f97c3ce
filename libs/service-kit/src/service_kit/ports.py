"""What a use case may ask of the world. Adapters: service_kit.jetstream; fakes: service_kit.testing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from fault_contracts.envelope import Envelope
from fault_contracts.payload import Payload


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> datetime:
        """Wall clock, aware UTC."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never go back; for durations and deadlines inside one process."""
        ...

    async def sleep(self, duration_s: float) -> None:
        """Wait; virtual in the simulator."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message as handed to a handler.

    Attributes:
        envelope: decoded and validated.
        subject: the NATS subject it came on.
        stream_sequence: place in its stream; None for core NATS.
        deliveries: 1 for the first try.
    """

    envelope: Envelope[Any]
    subject: str
    stream_sequence: int | None
    deliveries: int


Handler = Callable[[Delivery], Awaitable[None]]
"""Raises TransientError to be tried again, PermanentError to dead-letter; returns to acknowledge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Deliveries of one stream that are taken in together.

    Attributes:
        deliveries: in the stream's order.
        life: which life of the stream the sequences belong to; one that was made anew counts from 1 again.
        settled: every message of this durable up to this sequence is settled for good, by whichever process; 0 when
            that is not known. It grows, now and then after the fact.
    """

    deliveries: tuple[Delivery, ...]
    life: str
    settled: int


BatchHandler = Callable[[Batch], Awaitable[None]]
"""As Handler, for all of it. After a PermanentError the messages come again one by one, so that one does not cost the
others; what came through the first time must be recognised by its sequence."""


class Subscription(Protocol):
    """A running consumer."""

    async def stop(self) -> None:
        """Finish the message in hand, then stop."""
        ...


class Bus(Protocol):
    """Publish and consume registered messages of one cluster."""

    async def publish(self, envelope: Envelope[Any], *, epoch: int | None = None) -> int:
        """Store a message in its stream and return its stream sequence. Idempotent by envelope id.

        Args:
            envelope: the message; one whose registry entry has no stream is published without waiting (returns 0).
            epoch: for commands: the leader's epoch; the server refuses the message when a newer one exists.

        Raises:
            BusUnavailable: not acknowledged in time; safe to repeat.
            StaleLeader: the epoch is not the newest.
            PermanentError: the server refuses it for good (too large, no permission, no such stream).
        """
        ...

    async def consume(
        self,
        *,
        durable: str,
        messages: Sequence[type[Payload]],
        handler: Handler,
        from_now: bool = False,
        reclaim: bool = False,
    ) -> Subscription:
        """Durable pull consumer with explicit acknowledgement over all keys of the given messages.

        Deliveries of one key (node or job) are handled in order and one at a time; different keys may interleave.
        Undecodable messages are dead-lettered. `from_now`: a new durable starts with new messages only.
        `reclaim`: from now on this process is the only reader: what an earlier one had in hand when it was killed comes
        again at once, not after `ack_wait`. Handlers must be idempotent: others that read the same durable may get
        twice what they hold. A message that ends its readers waits for `ack_wait` after the third time.
        """
        ...

    async def consume_batches(
        self,
        *,
        durable: str,
        messages: Sequence[type[Payload]],
        handler: BatchHandler,
        batch_max: int,
        reclaim: bool = False,
    ) -> Subscription:
        """As `consume`, for much that is small: as many messages at once as are there, one batch at a time.

        All messages are of one stream. Several processes on one durable share its messages, also those of one key: then
        neither order nor a single reader holds for a key, and the handler's records need compare-and-set.
        """
        ...

    async def listen(
        self, *, messages: Sequence[type[Payload]], handler: Handler, key: str | None = None, share: str = ""
    ) -> Subscription:
        """Plain subscription, at most once: republished commands (`phx.go...`), what is not stored, and events.

        Stored events are heard as they are published, now and then one that the stream refused as a copy.
        `share`: of all that listen under this name, one hears each message; empty: everybody hears all.
        """
        ...

    async def last_commands(self, *, key: str, messages: Sequence[type[Payload]]) -> list[Delivery]:
        """The newest stored message of each given type for one key (one multi-last direct get), oldest first."""
        ...

    async def ask(self, *, what: str, key: str, body: bytes = b"", timeout_s: float) -> bytes | None:
        """Request and reply (`phx.ask.<what>...<key>`).

        Returns:
            The reply, or None when the server knows that nobody listens (NATS "no responders").

        Raises:
            BusUnavailable: no reply in time, or no connection: whether somebody is there is unknown.
        """
        ...

    async def answer(self, *, what: str, key: str, reply: Callable[[bytes], Awaitable[bytes]]) -> Subscription:
        """Serve `ask` for one key."""
        ...

    async def take_epoch(self, envelope: Envelope[Any]) -> int:
        """Store a LeaderEpoch message and return its sequence: from now on older epochs are refused."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A record with the revision that compare-and-set needs."""

    value: bytes
    revision: int


class KeyValue(Protocol):
    """One bucket. Keys are names; the adapter encodes them."""

    async def get(self, key: str) -> Entry | None:
        """The newest entry, or None when absent or deleted."""
        ...

    async def create(self, key: str, value: bytes) -> int:
        """Write a record that must not exist yet; returns its revision.

        Raises:
            CompareAndSetLost: it exists.
        """
        ...

    async def update(self, key: str, value: bytes, revision: int) -> int:
        """Write over exactly this revision; returns the new one.

        Raises:
            CompareAndSetLost: the record changed.
            BusUnavailable: unknown whether it was written; reload before deciding again.
        """
        ...

    async def delete(self, key: str) -> None:
        """Remove a record."""
        ...

    async def keys(self) -> list[str]:
        """All live keys."""
        ...
