"""Conditions, verdicts and inventories → the ledger: who is struck, and where a listed device has turned up."""

from __future__ import annotations

from fault_contracts.envelope import Envelope
from fault_contracts.faults import Action, Attribution, FaultClassified
from fault_contracts.hardware import UNPLACED, LedgerEntry, Strike, is_of_node
from fault_contracts.health import Component, ConditionRaised, Tier
from fault_contracts.inventory import DeviceIdentity, DeviceKind, InventoryReported
from fault_contracts.payload import Payload
from health_ingest.application.hardware_ports import NodeRecords
from health_ingest.application.keep_ledger import KeepLedger
from health_ingest.domain.ledger import Step, seen, strike
from service_kit.errors import ContractViolation
from service_kit.failpoints import Failpoints
from service_kit.logging import get_logger
from service_kit.ports import Clock, Delivery

MESSAGES: tuple[type[Payload], ...] = (ConditionRaised, FaultClassified, InventoryReported)
_KINDS = {Component.GPU: DeviceKind.GPU, Component.NIC: DeviceKind.NIC}
"""What has a name of its own that stays with it. A switch or a host has none in the kernel log."""
_log = get_logger(__name__)


class StrikeHardware:
    """Handler; idempotent by the ids of conditions and verdicts."""

    def __init__(self, *, ledger: KeepLedger, nodes: NodeRecords, clock: Clock, failpoints: Failpoints) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._clock = clock
        self._failpoints = failpoints

    async def handle(self, delivery: Delivery) -> None:
        """Take one message in; returning acknowledges it.

        Raises:
            TransientError: bus or store did not answer; the consumer owns the retry.
            ContractViolation: a message that this use case did not ask for.
        """
        envelope = delivery.envelope
        match envelope.data:
            case ConditionRaised():
                await self._condition(envelope.data, envelope.id)
            case FaultClassified():
                await self._verdict(envelope.data, envelope.id)
            case InventoryReported():
                await self._inventory(envelope)
            case _:
                raise ContractViolation(f"{envelope.type} is not for the ledger")
        self._failpoints.reach("ledger_before_ack")

    async def _condition(self, raised: ConditionRaised, causation_id: str) -> None:
        evidence = raised.device
        if raised.tier is not Tier.FAILURE or not is_of_node(raised) or raised.component not in _KINDS:
            return
        if evidence is None or evidence.sympathetic or evidence.origin is not Attribution.HARDWARE:
            return
        device = await self._identity(raised)
        if device is None:
            _log.warning("strike_without_identity", node_id=raised.node_id, check=raised.check)
            return
        blow = Strike(
            evidence_id=raised.condition_id,
            node_id=raised.node_id,
            check=raised.check,
            reason=raised.reason,
            struck_at=raised.raised_at,
        )
        await self._strike(device, blow, (), evidence.action is Action.REPLACE_NODE, causation_id)

    async def _verdict(self, verdict: FaultClassified, causation_id: str) -> None:
        """A verdict confirms what a condition said, and strikes where no condition did."""
        gpu_uuid = verdict.culprit.gpu_uuid
        if verdict.attribution is not Attribution.HARDWARE or not gpu_uuid or verdict.provisional:
            return
        blow = Strike(
            evidence_id=verdict.fault_id,
            node_id=verdict.culprit.node_id or UNPLACED,
            check=verdict.cause,
            reason=verdict.reasons[0].sentence,
            struck_at=verdict.classified_at,
        )
        device = DeviceIdentity(kind=DeviceKind.GPU, device_id=gpu_uuid)
        known = await self._from_inventory(blow.node_id, gpu_uuid, "")
        replaces = verdict.action is Action.REPLACE_NODE
        await self._strike(known or device, blow, verdict.condition_ids, replaces, causation_id)

    async def _strike(
        self, device: DeviceIdentity, blow: Strike, also: tuple[str, ...], replaces: bool, causation_id: str
    ) -> None:
        def decide(entry: LedgerEntry) -> Step:
            now = self._clock.now()
            return strike(entry, blow, also=also, replaces=replaces, now=now, policy=self._ledger.policy)

        await self._ledger.change(device, decide, create=True, causation_id=causation_id)

    async def _inventory(self, envelope: Envelope[InventoryReported]) -> None:
        report = envelope.data
        for device in report.devices:

            def decide(entry: LedgerEntry, device: DeviceIdentity = device) -> Step:
                now = self._clock.now()
                return seen(entry, device, node_id=report.node_id, seen_at=report.reported_at, now=now)

            await self._ledger.change(device, decide, create=False, causation_id=envelope.id)

    async def _identity(self, raised: ConditionRaised) -> DeviceIdentity | None:
        """Immutable name of the device: from the evidence, else from what the node said is at that PCI address."""
        evidence = raised.device
        assert evidence is not None, "asked for without evidence"
        name = evidence.gpu_uuid or raised.component_id
        known = await self._from_inventory(raised.node_id, name, evidence.pci_bus_id)
        if known is not None:
            return known
        is_address = (
            name.count(":") == 2 and not name.startswith(("GPU-", "MIG-")) and raised.component is Component.GPU
        )
        if not name or is_address:
            return None
        return DeviceIdentity(kind=_KINDS[raised.component], device_id=name, board_serial=evidence.board_serial)

    async def _from_inventory(self, node_id: str, name: str, pci_bus_id: str) -> DeviceIdentity | None:
        record = await self._nodes.load(node_id)
        devices = record.state.standing.devices if record is not None else ()
        for device in devices:
            if name and name in (device.device_id, device.pci_bus_id, device.name):
                return device
        return next((device for device in devices if pci_bus_id and device.pci_bus_id == pci_bus_id), None)
