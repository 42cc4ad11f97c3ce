"""Ledger, standings of nodes and the answers about them, put together: the same for the service and the tests."""

from __future__ import annotations

from dataclasses import dataclass

from health_ingest.application import keep_nodes, strike_hardware
from health_ingest.application.answer_hardware import AnswerHardware
from health_ingest.application.hardware_ports import LedgerRecords, NodeRecords
from health_ingest.application.keep_ledger import KeepLedger
from health_ingest.application.keep_nodes import KeepNodes
from health_ingest.application.strike_hardware import StrikeHardware
from health_ingest.domain.ledger import LedgerPolicy
from service_kit.failpoints import Failpoints
from service_kit.ports import Bus, Clock, Subscription

DURABLE_LEDGER = "health-ingest-ledger"
DURABLE_NODES = "health-ingest-nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldHardware:
    """Not yet running: `start` subscribes, `ledger.run` and `ledger.rescan_forever` keep the dates."""

    ledger: KeepLedger
    strikes: StrikeHardware
    nodes: KeepNodes
    answers: AnswerHardware
    bus: Bus

    async def start(self) -> list[Subscription]:
        """Consume and answer. Records of both kinds are idempotent, so replicas may share the durables."""
        return [
            await self.bus.consume(
                durable=DURABLE_LEDGER, messages=strike_hardware.MESSAGES, handler=self.strikes.handle
            ),
            await self.bus.consume(durable=DURABLE_NODES, messages=keep_nodes.MESSAGES, handler=self.nodes.handle),
            *await self.answers.serve(),
        ]


def assemble(
    *,
    bus: Bus,
    clock: Clock,
    ledger: LedgerRecords,
    nodes: NodeRecords,
    policy: LedgerPolicy,
    failpoints: Failpoints,
    rescan_s: float,
) -> HoldHardware:
    """Connect the use cases."""
    keep = KeepLedger(records=ledger, bus=bus, clock=clock, policy=policy, failpoints=failpoints, rescan_s=rescan_s)
    return HoldHardware(
        ledger=keep,
        strikes=StrikeHardware(ledger=keep, nodes=nodes, clock=clock, failpoints=failpoints),
        nodes=KeepNodes(records=nodes, ledger=keep, bus=bus, clock=clock, failpoints=failpoints),
        answers=AnswerHardware(ledger=keep, nodes=nodes, bus=bus, clock=clock),
        bus=bus,
    )
