"""The server side of the fake bus: streams, durables, fences, republish and the trouble of a network, from a seed.

Several `MemoryBus` (one per service process) share one broker, so that a service can die and come back to what it left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from random import Random  # noqa: TID251 - trouble comes from a seed, so that a failing run can be repeated
from typing import Any

from fault_contracts.envelope import open_envelope
from fault_contracts.registry import Stream, StreamSpec, stream_spec
from service_kit.errors import BusUnavailable, StaleLeader
from service_kit.ports import Clock, Delivery
from service_kit.testing.memory_records import Durable, Orphan, Receiver, Record, matches
from service_kit.testing.memory_records import Trouble as Trouble

ACK_WAIT_S = 30.0


class MemoryBroker:
    """In place of nats-server."""

    def __init__(self, clock: Clock, *, seed: int = 0, trouble: Trouble | None = None) -> None:
        self.clock = clock
        self.trouble = trouble or Trouble()
        self.random = Random(seed)  # noqa: S311 - not for secrets
        self.partitioned: set[str] = set()
        """Names of buses that reach nobody at the moment."""
        self.dropped_by_fence = 0
        self.on_stored: list[Callable[[Record], None]] = []
        """Told of each message that a stream keeps, before anybody gets it."""
        self.answers: dict[str, list[tuple[str, Callable[[bytes], Awaitable[bytes]]]]] = {}
        """Who serves a question; of several the newest is asked."""
        self.streams: dict[Stream, list[Record]] = {stream: [] for stream in Stream}
        self._ids: dict[tuple[Stream, str], Record] = {}
        self._newest: dict[str, Record] = {}
        self._durables: dict[str, Durable] = {}
        self._listeners: list[Receiver] = []
        self._hearing: dict[str, tuple[Receiver, ...]] = {}
        """Who hears a subject, as far as it was asked; with thousands of agents most hear nothing of most."""
        self._tasks: set[asyncio.Task[None]] = set()

    # ---------------------------------------------------------------------------------------------- for tests

    def stored(self, stream: Stream) -> list[Delivery]:
        """Everything a stream keeps and can be decoded, oldest first."""
        return [
            Delivery(envelope=open_envelope(r.body), subject=r.subject, stream_sequence=r.sequence, deliveries=1)
            for r in self.streams[stream]
        ]

    def deliver_again(self, durable: str, record: Record) -> None:
        """As if the acknowledgement of a message had been lost."""
        self._again(durable, record, 2, 0.0)

    def inject(self, subject: str, body: bytes, stream: Stream | None) -> None:
        """Put raw bytes on a subject, as a broken or foreign sender would."""
        if stream is None:
            self.send(subject, body)
        else:
            self._append(stream, subject, body)

    def is_drained(self) -> bool:
        """No consumer has a message in hand or will get one again."""
        waiting = any(d.waiting or any(r.in_hand for r in d.receivers) for d in self._durables.values())
        return not waiting and not self._tasks

    async def close(self) -> None:
        """End what is still under way."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---------------------------------------------------------------------------------------------- publishing

    def store(
        self, stream: Stream, subject: str, body: bytes, *, message_id: str | None, fence: tuple[str, int] | None
    ) -> int:
        """Keep a message.

        Raises:
            StaleLeader: the newest message on the fence's subject has another sequence.
        """
        # Whoever listens on the subject hears it, whatever the stream makes of it.
        self.send(subject, body)
        spec = stream_spec(stream)
        if message_id is not None:
            known = self._ids.get((stream, message_id))
            if known is not None and self.clock.monotonic_s() - known.stored_s < spec.duplicate_window_s:
                return known.sequence
        if fence is not None:
            newest = self._newest.get(fence[0])
            if newest is None or newest.sequence != fence[1]:
                self.dropped_by_fence += 1
                raise StaleLeader(f"epoch {fence[1]} is not the newest; {subject} refused")
        record = self._append(stream, subject, body)
        if message_id is not None:
            self._ids[(stream, message_id)] = record
        self._republish(spec, record)
        return record.sequence

    def newest_first(self, stream: Stream, subject: str) -> Iterator[Record]:
        """All messages on a subject of a stream."""
        if subject in self._newest:
            yield from (record for record in reversed(self.streams[stream]) if record.subject == subject)

    def knows(self, stream: Stream, message_id: str) -> bool:
        """Whether a stream has taken a message of this id."""
        return (stream, message_id) in self._ids

    def send(self, subject: str, body: bytes, sequence: int | None = None) -> None:
        """Core NATS: to whoever listens now."""
        record = Record(
            stream=Stream.CONTROL,
            sequence=sequence or 0,
            subject=subject,
            body=body,
            stored_s=self.clock.monotonic_s(),
        )
        shares: set[str] = set()
        for listener in self._who_hears(subject):
            if listener.owner in self.partitioned:
                continue
            if listener.share in shares:
                continue
            if listener.share:
                shares.add(listener.share)
                # Next time it is another's turn.
                self._listeners.remove(listener)
                self.listen(listener)
            if self.chance(self.trouble.dropped):
                continue
            for _ in range(2 if self.chance(self.trouble.duplicated) else 1):
                self._hand_over(listener, record, 1)

    def chance(self, probability: float) -> bool:
        """Whether it happens this time. No draw when it never can, so that seeds stay comparable."""
        return probability > 0 and self.random.random() < probability

    def reachable(self, owner: str, what: str) -> None:
        """Raise BusUnavailable for a bus that is cut off."""
        if owner in self.partitioned:
            raise BusUnavailable(f"{what}: no connection")

    # ---------------------------------------------------------------------------------------------- receiving

    def listen(self, receiver: Receiver) -> None:
        """Add a plain subscription."""
        self._listeners.append(receiver)
        self._hearing.clear()

    def forget(self, receiver: Receiver) -> None:
        """Remove a plain subscription."""
        if receiver in self._listeners:
            self._listeners.remove(receiver)
            self._hearing.clear()

    def attach(self, name: str, receiver: Receiver, *, streams: set[Stream], from_now: bool) -> None:
        """Connect a process to a durable, creating it when it is new."""
        durable = self._durables.get(name)
        if durable is None:
            durable = self._durables[name] = Durable(patterns=receiver.patterns)
            if not from_now:
                for stream in sorted(streams):
                    found = [r for r in self.streams[stream] if matches(receiver.patterns, r.subject)]
                    durable.waiting.extend((record, 1) for record in found)
        durable.patterns = receiver.patterns
        durable.receivers.append(receiver)
        self.pump(name)

    def detach(self, name: str, receiver: Receiver, *, killed: bool) -> None:
        """A process left. What it had in hand comes again: at once when it said goodbye, else after ack_wait."""
        durable = self._durables[name]
        if receiver in durable.receivers:
            durable.receivers.remove(receiver)
        for (stream, sequence), deliveries in receiver.in_hand.items():
            record = self.streams[stream][sequence - 1]
            if killed:
                orphan = Orphan(record=record)
                durable.orphans.append(orphan)
                self._again(name, record, deliveries + 1, ACK_WAIT_S, orphan=orphan)
            else:
                self._again(name, record, deliveries + 1, 0.0)
        receiver.in_hand.clear()

    def reclaim(self, name: str) -> None:
        """What dead readers had in hand comes to the living ones at once, counted as delivered for the first time."""
        durable = self._durables[name]
        orphans, durable.orphans = durable.orphans, []
        for orphan in orphans:
            orphan.claimed = True
            durable.waiting.append((orphan.record, 1))
        if orphans:
            durable.waiting.sort(key=lambda waiting: (waiting[0].stream, waiting[0].sequence))
            self.pump(name)

    def settle(self, name: str, receiver: Receiver, record: Record, deliveries: int) -> None:
        """A message is done with; now and then the acknowledgement is lost."""
        if receiver.in_hand.pop((record.stream, record.sequence), None) is None:
            return
        if receiver.owner in self.partitioned or self.chance(self.trouble.duplicated):
            self._again(name, record, deliveries + 1, ACK_WAIT_S)

    def pump(self, name: str) -> None:
        """Deliver what waits, to processes in turn."""
        durable = self._durables[name]
        ready = [r for r in durable.receivers if r.owner not in self.partitioned]
        if not ready:
            return
        waiting, durable.waiting = durable.waiting, []
        for record, deliveries in waiting:
            receiver = ready[record.sequence % len(ready)]
            if self.chance(self.trouble.dropped):
                self._again(name, record, deliveries + 1, ACK_WAIT_S)
                continue
            receiver.in_hand[(record.stream, record.sequence)] = deliveries
            receiver.take(record, deliveries)

    def heal(self, *owners: str) -> None:
        """End these partitions, or all, and deliver what waited."""
        self.partitioned -= set(owners) or set(self.partitioned)
        for name in self._durables:
            self.pump(name)

    # ------------------------------------------------------------------------------------------------- inside

    def _append(self, stream: Stream, subject: str, body: bytes) -> Record:
        records = self.streams[stream]
        record = Record(
            stream=stream,
            sequence=len(records) + 1,
            subject=subject,
            body=body,
            stored_s=self.clock.monotonic_s(),
        )
        records.append(record)
        self._newest[subject] = record
        for told in self.on_stored:
            told(record)
        for name, durable in self._durables.items():
            if matches(durable.patterns, subject):
                durable.waiting.append((record, 1))
                self.pump(name)
        return record

    def _who_hears(self, subject: str) -> tuple[Receiver, ...]:
        if subject not in self._hearing:
            self._hearing[subject] = tuple(r for r in self._listeners if matches(r.patterns, subject))
        return self._hearing[subject]

    def _republish(self, spec: StreamSpec, record: Record) -> None:
        if spec.republish is None:
            return
        source, target = (side.removesuffix(">") for side in spec.republish)
        if record.subject.startswith(source):
            self.send(target + record.subject.removeprefix(source), record.body, record.sequence)

    def _hand_over(self, receiver: Receiver, record: Record, deliveries: int) -> None:
        if not self.chance(self.trouble.reordered):
            receiver.take(record, deliveries)
            return

        async def later() -> None:
            await self.clock.sleep(max(self.trouble.delay_s_max, 0.001) * 2)
            receiver.take(record, deliveries)

        self.spawn(later())

    def _again(
        self, name: str, record: Record, deliveries: int, wait_s: float, *, orphan: Orphan | None = None
    ) -> None:
        async def redeliver() -> None:
            await self.clock.sleep(wait_s)
            if orphan is not None:
                if orphan.claimed:
                    return
                self._durables[name].orphans.remove(orphan)
            self._durables[name].waiting.append((record, deliveries))
            self.pump(name)

        self.spawn(redeliver())

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something that ends with the broker."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
