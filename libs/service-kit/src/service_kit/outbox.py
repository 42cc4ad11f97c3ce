"""Events survive a dead bus and a dead process: kept in a file until their stream acknowledged them.

An event goes to the bus at once, beside the write to the file and not after it: message ids absorb the copy that a
crash in between leaves. Events of one key leave in the order they came.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from fault_contracts.envelope import Envelope, EnvelopeError, open_envelope
from service_kit import metrics
from service_kit.errors import PermanentError, ServiceError
from service_kit.keyed_work import KeyedWork
from service_kit.logging import get_logger
from service_kit.outbox_store import OutboxStore, StoredEvent
from service_kit.ports import Bus

EVENTS_MAX = 20_000
BYTES_MAX = 16 << 20
"""An agent stays under 70 MB; at one step report a second this holds five hours without a bus."""
ENVELOPES_KEPT = 256
"""Decoded envelopes held for the events at the front; further ones are decoded again when their turn comes."""
BACKOFF_S = (0.1, 0.2, 0.5, 1.0)
"""Between attempts while the bus is away (each waits for the connection itself); the last one repeats."""
STOP_LIMIT_S = 1.0

log = get_logger(__name__)


@dataclass(slots=True, kw_only=True, eq=False)
class _Pending:
    event: StoredEvent
    envelope: Envelope[Any] | None
    settled: asyncio.Event
    """Durable: in the file, or in the stream."""
    dropped: bool = False


class Outbox:
    """One file, one process. `run` forwards; `put` may be called before, during and after it."""

    def __init__(self, path: Path, *, events_max: int = EVENTS_MAX, bytes_max: int = BYTES_MAX) -> None:
        """Open the file and take over what earlier lives left.

        Raises:
            OSError: it cannot be opened, or another process uses it.
        """
        self._events_max = events_max
        self._bytes_max = bytes_max
        self._pending: OrderedDict[int, _Pending] = OrderedDict()
        self._bytes = 0
        self.dropped = 0
        """Events given up because the outbox was full."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle = asyncio.Event()
        self._work: KeyedWork[_Pending] | None = None
        self._store = OutboxStore(path, on_durable=self._durable_from_thread)
        self._places = count(self._store.last_place() + 1)
        for event in self._store.load():
            self._remember(_Pending(event=event, envelope=None, settled=asyncio.Event()))
        self._count()

    def __len__(self) -> int:
        return len(self._pending)

    async def put(self, envelope: Envelope[Any], *, urgent: bool = False) -> None:
        """Take an event over; returns when it would survive a kill of this process (urgent: a power cut).

        Calls keep their order even when nobody awaits them one by one, because everything up to the wait happens at
        once.

        Raises:
            ContractViolation: larger than an envelope may be.
        """
        self._loop = asyncio.get_running_loop()
        body = envelope.to_bytes()
        event = StoredEvent(
            place=next(self._places), id=envelope.id, subject=envelope.subject, urgent=urgent, body=body
        )
        kept = envelope if len(self._pending) < ENVELOPES_KEPT else None
        pending = _Pending(event=event, envelope=kept, settled=asyncio.Event())
        self._remember(pending)
        self._make_room()
        if pending.dropped:
            return
        self._store.add(event)
        if self._work is not None:
            self._work.add(event.subject, pending)
        self._count()
        await pending.settled.wait()

    async def run(self, bus: Bus) -> None:
        """Forward until cancelled."""
        self._loop = asyncio.get_running_loop()
        work = KeyedWork[_Pending](lambda pending: self._forward(bus, pending))
        for pending in tuple(self._pending.values()):
            work.add(pending.event.subject, pending)
        self._work = work
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._work = None
            await work.stop(STOP_LIMIT_S)

    async def drain(self, limit_s: float) -> int:
        """Wait until the bus has everything, at most so long; returns how many events are left in the file."""
        try:
            async with asyncio.timeout(limit_s):
                while self._pending:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            log.warning("outbox_not_drained", left=len(self._pending))
        return len(self._pending)

    async def close(self) -> None:
        """Write what is left and close the file."""
        await asyncio.to_thread(self._store.close)

    async def _forward(self, bus: Bus, pending: _Pending) -> None:
        attempt = 0
        while not pending.dropped:
            try:
                envelope = pending.envelope or open_envelope(pending.event.body)
                await bus.publish(envelope)
            except (PermanentError, EnvelopeError) as error:
                log.error("outbox_event_refused", message_id=pending.event.id, error=f"{type(error).__name__}: {error}")
                self._store.refuse(pending.event, str(error))
                self._forget(pending)
                return
            except Exception as error:
                if not isinstance(error, ServiceError):
                    log.exception("outbox_forward_failed", message_id=pending.event.id)
                elif attempt == 0:
                    log.warning("outbox_waits", message_id=pending.event.id, error=str(error), pending=len(self))
                await asyncio.sleep(BACKOFF_S[min(attempt, len(BACKOFF_S) - 1)])
                attempt += 1
            else:
                self._store.remove(pending.event.place)
                self._forget(pending)
                return

    def _remember(self, pending: _Pending) -> None:
        self._pending[pending.event.place] = pending
        self._bytes += len(pending.event.body)

    def _forget(self, pending: _Pending) -> None:
        if self._pending.pop(pending.event.place, None) is not None:
            self._bytes -= len(pending.event.body)
        pending.settled.set()
        self._count()
        if not self._pending:
            self._idle.set()

    def _make_room(self) -> None:
        """Give up the oldest events that are not urgent; never an urgent one."""
        while len(self._pending) > self._events_max or self._bytes > self._bytes_max:
            victim = next((pending for pending in self._pending.values() if not pending.event.urgent), None)
            if victim is None:
                return  # only urgent ones: they are few, and worth the memory
            victim.dropped = True
            self._store.remove(victim.event.place)
            self._forget(victim)
            self.dropped += 1
            metrics.OUTBOX_DROPPED.inc()
            if self.dropped == 1 or self.dropped % 1_000 == 0:
                log.error("outbox_full", dropped=self.dropped, pending=len(self._pending))

    def _count(self) -> None:
        metrics.OUTBOX_PENDING.set(len(self._pending))

    def _durable_from_thread(self, places: list[int]) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            try:
                loop.call_soon_threadsafe(self._durable, places)
            except RuntimeError:
                return  # the loop closed in between; nobody waits any more

    def _durable(self, places: list[int]) -> None:
        for place in places:
            pending = self._pending.get(place)
            if pending is not None:
                pending.settled.set()
