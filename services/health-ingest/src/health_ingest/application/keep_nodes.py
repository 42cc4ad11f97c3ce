"""The one path on which a node's standing changes, and the messages that tell of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fault_contracts.envelope import Envelope, seal
from fault_contracts.hardware import UNPLACED, HardwareChanged, NodeStanding, NodeStandingChanged, is_of_node
from fault_contracts.health import ConditionCleared, ConditionRaised
from fault_contracts.inventory import InventoryReported
from fault_contracts.payload import Payload
from fault_contracts.step_times import STRAGGLER_CHECK
from health_ingest.application.advance_condition import SOURCE
from health_ingest.application.hardware_ports import NodeRecord, NodeRecords
from health_ingest.application.keep_ledger import KeepLedger
from health_ingest.domain import node_standing
from health_ingest.domain.node_standing import NodeState
from health_ingest.domain.signal import RANK_CHECKS
from service_kit.errors import CompareAndSetLost, ContractViolation, TransientError
from service_kit.failpoints import Failpoints
from service_kit.logging import get_logger
from service_kit.ports import Bus, Clock, Delivery

MESSAGES: tuple[type[Payload], ...] = (ConditionRaised, ConditionCleared, InventoryReported, HardwareChanged)
ROUNDS_MAX = 16
_OF_RANKS = frozenset({*RANK_CHECKS, STRAGGLER_CHECK})
"""Checks whose end says nothing about a node; there are many of them."""
_log = get_logger(__name__)
Change = Callable[[NodeState], NodeState]


class KeepNodes:
    """Handler of what changes a node's standing; idempotent by the ids of conditions and by times of reports."""

    def __init__(
        self, *, records: NodeRecords, ledger: KeepLedger, bus: Bus, clock: Clock, failpoints: Failpoints
    ) -> None:
        self._records = records
        self._ledger = ledger
        self._bus = bus
        self._clock = clock
        self._failpoints = failpoints

    async def handle(self, delivery: Delivery) -> None:
        """Take one message in; returning acknowledges it.

        Raises:
            TransientError: bus or store did not answer; the consumer owns the retry.
            ContractViolation: a message that this use case did not ask for.
        """
        envelope = delivery.envelope
        if self._concerns(envelope.data):
            await self._apply(envelope.data.node_id, envelope.data, envelope.id)
        self._failpoints.reach("nodes_before_ack")

    def _concerns(self, payload: Payload) -> bool:
        if isinstance(payload, ConditionRaised):
            return is_of_node(payload)
        if isinstance(payload, ConditionCleared):
            # Also one that was never raised here: its raising may come late, and must open nothing then.
            return payload.check not in _OF_RANKS
        return not (isinstance(payload, HardwareChanged) and payload.node_id == UNPLACED)

    async def _change_of(self, payload: Payload) -> Change:
        """What it does to a state. The ledger is read as it is now: its messages may overtake each other."""
        now = self._clock.now()
        match payload:
            case ConditionRaised():
                return lambda state: node_standing.raised(state, payload, now=now)
            case ConditionCleared():
                return lambda state: node_standing.cleared(state, payload.condition_id, now=now)
            case InventoryReported():
                found = [await self._ledger.entry_of(device) for device in payload.devices]
                entries = tuple(entry for entry in found if entry is not None)
                return lambda state: node_standing.inventoried(state, payload, entries, now=now)
            case HardwareChanged():
                record = await self._ledger.records.load(payload.device_id)
                entry = payload.entry if record is None else record.entry
                return lambda state: node_standing.entry_changed(state, entry, now=now)
            case _:
                raise ContractViolation(f"{type(payload).__name__} is not about a node")

    async def _apply(self, node_id: str, payload: Payload, causation_id: str) -> None:
        for _ in range(ROUNDS_MAX):
            record = await self._records.load(node_id)
            if record is None:
                record = NodeRecord(state=NodeState(standing=NodeStanding(node_id=node_id)))
            # Read after the record: then whoever writes with an older word of the ledger loses the compare-and-set.
            change = await self._change_of(payload)
            try:
                await self._round(record, change, causation_id)
            except CompareAndSetLost:
                continue
            return
        raise TransientError(f"standing of {node_id} changed {ROUNDS_MAX} times while it was decided on")

    async def _round(self, record: NodeRecord, change: Change, causation_id: str) -> None:
        if record.pending:  # A predecessor was killed between persist and clear. Its messages come first.
            await self._publish(record.pending)
        state = change(record.state)
        self._failpoints.reach("nodes_after_decide")
        if state == record.state and not record.pending:
            return
        owed: tuple[Envelope[Any], ...] = ()
        if state.said != record.state.said:
            owed = (self._sealed(state.standing, causation_id),)
        saved = await self._records.save(replace(record, state=state, pending=owed))
        self._failpoints.reach("nodes_after_persist")
        if not owed:
            return
        await self._publish(owed)
        standing = state.standing
        why = standing.reasons[0].sentence if standing.reasons else ""
        _log.info("node_standing_changed", node_id=standing.node_id, fit=standing.fit, reason=why)
        try:
            await self._records.save(replace(saved, pending=()))
        except CompareAndSetLost:
            # Whoever wrote saw the pending message and published it again; its id makes that harmless.
            _log.debug("clear_overtaken", node_id=standing.node_id)

    async def _publish(self, envelopes: tuple[Envelope[Any], ...]) -> None:
        for envelope in envelopes:
            await self._bus.publish(envelope)

    def _sealed(self, standing: NodeStanding, causation_id: str) -> Envelope[NodeStandingChanged]:
        now = self._clock.now()
        told = NodeStandingChanged(node_id=standing.node_id, standing=standing, changed_at=now)
        return seal(
            told,
            source=SOURCE,
            cause_id=standing.node_id,
            ordinal=standing.version,
            time=now,
            causation_id=causation_id,
        )
