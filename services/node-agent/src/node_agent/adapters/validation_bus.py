"""What a validation has of the bus: checks that ask the services, and the record of its outcome.

Without a bus those checks are shown as not made and decide nothing. With one that does not answer they are unknown, and
the validation does not pass.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from fault_contracts.envelope import seal
from fault_contracts.ids import derived_id
from fault_contracts.node_actions import ActionOutcome, NodeAction, NodeActionReported
from fault_contracts.payload import Health, Reason
from fault_contracts.registry import Bucket
from node_agent.adapters.validation_flags import ValidationOptions
from node_agent.adapters.validation_report import short_json
from node_agent.application.check_conditions import ConditionsCheck
from node_agent.application.check_ledger import LedgerCheck
from node_agent.application.check_standing import StandingCheck
from node_agent.application.validation_ports import LocalCheck
from node_agent.domain.validation_result import CheckResult, ValidationVerdict
from service_kit.clock import SystemClock
from service_kit.errors import ServiceError
from service_kit.jetstream.bus import JetStreamBus
from service_kit.jetstream.connection import Connection, connect
from service_kit.jetstream.key_value import JetStreamKeyValue
from service_kit.logging import get_logger
from service_kit.settings import BusSettings

CONNECT_S = 5.0
ASK_S = 5.0
ASKED = ("ledger", "conditions", "standing")

log = get_logger(__name__)


class _NotAsked:
    """One line for each check that could not be made, with the reason."""

    def __init__(self, sentence: str, *, counts: bool) -> None:
        self._sentence = sentence
        self._counts = counts

    async def run(self) -> Sequence[CheckResult]:
        rule = "validation.no_bus"
        return [
            CheckResult(check=check, health=Health.UNKNOWN, rule_id=rule, sentence=self._sentence, counts=self._counts)
            for check in ASKED
        ]


class ValidationBus:
    """One connection, or the reason why there is none."""

    def __init__(self, options: ValidationOptions) -> None:
        self._options = options
        self._clock = SystemClock()
        self._connection: Connection | None = None
        self._bus: JetStreamBus | None = None
        self._problem = ""

    async def open(self) -> None:
        """Connect where a bus is named."""
        if not self._options.nats_url:
            return
        given = {"nats_url": self._options.nats_url, "cluster": self._options.cluster, "connect_limit_s": CONNECT_S}
        try:
            self._connection = await connect(BusSettings().model_copy(update=given), name="phalanx-validate")
        except ServiceError as error:
            self._problem = str(error)
            return
        self._bus = JetStreamBus(self._connection, cluster=self._options.cluster)

    async def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            await self._connection.close()

    def checks(self, gpu_uuids: frozenset[str]) -> list[LocalCheck]:
        """Ledger, conditions and standing, or why not."""
        node_id = self._options.node_id
        if self._bus is None or self._connection is None:
            if self._problem:
                return [_NotAsked(f"the bus cannot be reached: {self._problem}", counts=True)]
            return [_NotAsked("not asked: no bus is named (--nats-url or NATS_URL)", counts=False)]
        nodes = JetStreamKeyValue(self._connection, Bucket.NODES, cluster=self._options.cluster)
        return [
            LedgerCheck(self._bus, node_id=node_id, gpu_uuids=gpu_uuids, limit_s=ASK_S),
            ConditionsCheck(self._bus, self._clock, node_id=node_id, limit_s=self._options.conditions_s),
            StandingCheck(nodes, node_id=node_id, limit_s=ASK_S),
        ]

    async def record(self, report: Mapping[str, Any]) -> None:
        """Tell the outcome for this node; a bus that is away costs the record, not the validation."""
        if self._bus is None or not self._options.publish:
            return
        now, node_id = self._clock.now(), self._options.node_id
        operation_id = derived_id(node_id, "validate", os.getpid(), now.isoformat())
        passed = report["verdict"] == ValidationVerdict.PASS
        reported = NodeActionReported(
            node_id=node_id,
            instance_id=f"phalanx-validate-{os.getpid()}",
            operation_id=operation_id,
            action=NodeAction.VALIDATE,
            outcome=ActionOutcome.DONE if passed else ActionOutcome.FAILED,
            reason=Reason(rule_id=report["rule_id"], sentence=f"{report['verdict']}: {report['reason']}"[:2_000]),
            output=short_json(report),
            finished_at=now,
        )
        try:
            await self._bus.publish(
                seal(reported, source=f"phalanx-validate/{node_id}", cause_id=operation_id, time=now)
            )
        except ServiceError as error:
            log.error("outcome_not_recorded", error=str(error))
