"""A cloud that exists only for trials: it delays, it fails, and it hands the same bad machine out under a new name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from fault_contracts.cluster_policy import PoolPolicy
from recovery_planner.application.tending_ports import PoolAnswer
from service_kit.ports import Clock

Boot = Callable[[str, str], None]
"""A machine comes up: its new name, and the name that it had when it was given back (empty: never seen before)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    number: int
    due: datetime


class SimulatedCloud:
    """tending_ports.NodePool. Deterministic: what a request gets depends on its number alone."""

    def __init__(self, policy: PoolPolicy, *, clock: Clock, boot: Boot | None = None) -> None:
        self._policy = policy
        self._clock = clock
        self._boot = boot
        self._requests: dict[str, _Request] = {}
        self._names: dict[str, str] = {}
        self._back: list[str] = []

    async def retire(self, node_id: str, *, request_id: str, reason: str) -> None:  # noqa: ARG002 - the port
        """See the port."""
        if node_id not in self._back:
            self._back.append(node_id)

    async def acquire(self, *, request_id: str, labels: Mapping[str, str]) -> PoolAnswer:  # noqa: ARG002 - the port
        """See the port."""
        policy, now = self._policy, self._clock.now()
        request = self._requests.get(request_id)
        if request is None:
            number = len(self._requests) + 1
            request = _Request(number=number, due=now + timedelta(seconds=policy.delay_s))
            self._requests[request_id] = request
        if now < request.due:
            return PoolAnswer()
        if policy.failures_every and request.number % policy.failures_every == 0:
            return PoolAnswer(failed="no machine of this kind is free in the zone")
        if request_id not in self._names:
            self._names[request_id] = self._start(request.number)
        return PoolAnswer(node_id=self._names[request_id])

    def _start(self, number: int) -> str:
        name, origin = f"cloud-{number}", ""
        if self._policy.returns_every and self._back and number % self._policy.returns_every == 0:
            origin = self._back.pop(0)
        if self._boot is not None:
            self._boot(name, origin)
        return name
