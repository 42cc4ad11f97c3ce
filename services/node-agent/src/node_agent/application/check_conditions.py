"""Are the conditions of this node clean on two consecutive fresh rounds? Asks its host role until that is known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from fault_contracts.payload import Health
from node_agent.domain.validation_result import CheckResult
from node_agent.domain.validation_rounds import FreshRounds, RoundsEnd, SeenCheck, look
from service_kit.errors import ServiceError
from service_kit.ports import Bus, Clock

POLL_S = 1.0
ASK_S = 5.0
AGE_ERROR_S = 0.2
"""Ages are told to a tenth of a second and travel for a while: a look must be younger than the round by more."""


class ConditionsCheck:
    """application.validation_ports.LocalCheck. `limit_s` has to hold two sweeps of the host role."""

    def __init__(self, bus: Bus, clock: Clock, *, node_id: str, limit_s: float) -> None:
        self._bus = bus
        self._clock = clock
        self._node_id = node_id
        self._limit_s = limit_s

    async def run(self) -> Sequence[CheckResult]:
        """One line."""
        state = FreshRounds(began_at=self._clock.now())
        give_up_s = self._clock.monotonic_s() + self._limit_s
        while True:
            try:
                raw = await self._bus.ask(what="host_health", key=self._node_id, timeout_s=ASK_S)
            except ServiceError as error:
                return [_line(Health.UNKNOWN, "unreachable", f"the host role cannot be asked: {error}")]
            if raw is None:
                sentence = f"no host role answers for {self._node_id}; start one with `phalanx host`"
                return [_line(Health.UNKNOWN, "no_host_role", sentence)]
            try:
                state = look(state, self._rows(raw), now=self._clock.now())
            except (ValueError, KeyError, TypeError) as error:
                return [_line(Health.UNKNOWN, "unreadable", f"its answer is not understood: {error}"[:500])]
            if state.end is not RoundsEnd.WAITING:
                return [_ended(state)]
            if self._clock.monotonic_s() >= give_up_s:
                sentence = f"not two fresh rounds within {self._limit_s:g} s: {state.sentence}"
                return [_line(Health.UNKNOWN, "too_slow", sentence)]
            await self._clock.sleep(POLL_S)

    def _rows(self, raw: bytes) -> list[SeenCheck]:
        """Every row. What happened before the validation is weighed in the node's standing, not here."""
        told: Mapping[str, Any] = json.loads(raw)
        now = self._clock.now()
        rows = []
        for row in told["rows"]:
            # Ages, not times: the clock of the agent and ours may differ when it runs in another container.
            seen_at = now - timedelta(seconds=float(row["age_s"]) + AGE_ERROR_S)
            row_name = f"{row['check']} {row.get('component_id', '')}".strip()
            seen = SeenCheck(
                name=row_name,
                health=Health(row["health"]),
                detail=str(row.get("detail", ""))[:200],
                seen_at=seen_at,
                renewed=not row.get("event", False),
            )
            rows.append(seen)
        return rows


def _ended(state: FreshRounds) -> CheckResult:
    match state.end:
        case RoundsEnd.CLEAN:
            return _line(Health.OK, "clean", state.sentence)
        case RoundsEnd.BAD:
            return _line(Health.BAD, "bad", state.sentence)
        case RoundsEnd.UNKNOWN | RoundsEnd.WAITING:
            return _line(Health.UNKNOWN, "unknown", state.sentence)


def _line(health: Health, rule: str, sentence: str) -> CheckResult:
    return CheckResult(
        check="conditions", health=health, rule_id=f"validation.conditions_{rule}", sentence=sentence[:2_000]
    )
