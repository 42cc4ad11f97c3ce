"""What do the services think of this node? Its standing: open failures and held devices, as health-ingest keeps it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from fault_contracts.hardware import standing_of_record
from fault_contracts.payload import Health
from node_agent.domain.validation_result import CheckResult
from service_kit.errors import ServiceError
from service_kit.ports import KeyValue


class StandingCheck:
    """application.validation_ports.LocalCheck on the bucket `nodes`.

    A node without a record is one that no host role has told of: shown, and no reason against it; conditions and ledger
    are asked for themselves.
    """

    def __init__(self, nodes: KeyValue, *, node_id: str, limit_s: float) -> None:
        self._nodes = nodes
        self._node_id = node_id
        self._limit_s = limit_s

    async def run(self) -> Sequence[CheckResult]:
        """One line."""
        try:
            async with asyncio.timeout(self._limit_s):
                entry = await self._nodes.get(self._node_id)
        except TimeoutError:
            return [_line(Health.UNKNOWN, "unreachable", f"the record cannot be read within {self._limit_s:g} s")]
        except ServiceError as error:
            return [_line(Health.UNKNOWN, "unreachable", f"the record cannot be read: {error}")]
        if entry is None:
            return [_line(Health.UNKNOWN, "none", f"nothing is recorded of {self._node_id}", counts=False)]
        try:
            standing = standing_of_record(entry.value)
        except ValueError as error:
            return [_line(Health.UNKNOWN, "unreadable", f"the record is not understood: {error}"[:500])]
        reasons = "; ".join(reason.sentence for reason in standing.reasons)
        match standing.fit:
            case Health.BAD:
                return [_line(Health.BAD, "bad", f"not fit for work: {reasons or 'no reason is recorded'}"[:2_000])]
            case Health.OK:
                doubts = "; ".join(reason.sentence for reason in standing.doubts)
                told = f"fit for work, with problems: {doubts}" if doubts else "fit for work"
                return [_line(Health.OK, "fit", told[:2_000])]
            case Health.UNKNOWN:
                return [_line(Health.UNKNOWN, "unknown", "no host role has told of this node", counts=False)]


def _line(health: Health, rule: str, sentence: str, *, counts: bool = True) -> CheckResult:
    return CheckResult(
        check="standing", health=health, rule_id=f"validation.standing_{rule}", sentence=sentence, counts=counts
    )
