"""What other systems say → signals on the bus, and an answer to each item: accepted, ignored or refused, and why.

Ids derive from the other system's own identity, so a webhook that is sent again dedupes. Times are this service's: it
says when we were told, by one clock for the bad word and the good one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from fault_contracts.envelope import Envelope, derived_id, seal
from fault_contracts.health import Component, SignalObserved
from health_ingest.domain.foreign import ForeignTable, Outcome, Told, Understood, understand
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock

SOURCE = "/health-ingest/signals"
ITEMS_MAX = 1_000
"""Of one request; Alertmanager's groups are far smaller, and it can be told to cut them (max_alerts)."""
PUBLISHES_AT_ONCE = 32
ATTRIBUTES_MAX = 16
_DETAIL_MAX = 2_048
_VALUE_MAX = 512

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One item of the answer, in the order of the request."""

    told: Told
    understood: Understood
    signal_id: str = ""


class TakeForeign:
    """One request at a time or many at once; it keeps nothing."""

    def __init__(self, *, bus: Bus, clock: Clock, table: ForeignTable) -> None:
        self._bus = bus
        self._clock = clock
        self._table = table

    async def take(self, items: Sequence[Told]) -> list[Answered]:
        """Understand all, publish what was accepted, and say what became of each.

        Raises:
            TransientError: the bus did not take all; the sender is to repeat the request, and nothing doubles.
        """
        assert len(items) <= ITEMS_MAX, "the door lets no more in"
        answers = []
        owed: list[Envelope[SignalObserved]] = []
        for told in items:
            understood = understand(told, self._table)
            signal_id = ""
            if understood.outcome is Outcome.ACCEPTED:
                envelope = self._sealed(told, understood)
                owed.append(envelope)
                signal_id = envelope.id
            answers.append(Answered(told=told, understood=understood, signal_id=signal_id))
        for start in range(0, len(owed), PUBLISHES_AT_ONCE):
            await asyncio.gather(*(self._bus.publish(each) for each in owed[start : start + PUBLISHES_AT_ONCE]))
        if items:
            counts = {outcome.value: sum(a.understood.outcome is outcome for a in answers) for outcome in Outcome}
            _log.info("foreign_signals_taken", source=items[0].source, **counts)
        return answers

    def _sealed(self, told: Told, understood: Understood) -> Envelope[SignalObserved]:
        now = self._clock.now()
        signal = SignalObserved(
            node_id=understood.node_id,
            component=understood.component,
            component_id=understood.component_id,
            check=understood.check,
            health=understood.health,
            detail=f"{told.source} says {told.name} is {told.state}: {told.detail}"[:_DETAIL_MAX],
            attributes=_attributes(told, understood),
            source=told.source,
            observed_at=now,
        )
        cause_id = derived_id(told.source, "foreign", understood.node_id, *told.thread, *told.said)
        return seal(
            signal,
            source=SOURCE,
            cause_id=cause_id,
            ordinal=f"{understood.check}/{understood.component_id}/{understood.health}",
            time=now,
        )


def _attributes(told: Told, understood: Understood) -> dict[str, str]:
    """Which device, in the words of our own collectors, and what they told; bounded."""
    found = {"foreign_name": told.name}
    if understood.component is Component.GPU:
        uuid = understood.component_id if understood.component_id.startswith("GPU-") else ""
        found |= {"gpu_uuid": uuid.partition(" ")[0], "pci_bus_id": told.fields.get("entities.PCI", "")}
    if understood.check.startswith("xid_"):
        found["xid"] = understood.check.removeprefix("xid_")
    for name, value in told.fields.items():
        if len(found) >= ATTRIBUTES_MAX:
            break
        found.setdefault(name, value)
    return {name[:256]: value[:_VALUE_MAX] for name, value in found.items() if value}
