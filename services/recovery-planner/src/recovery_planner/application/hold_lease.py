"""One operator works, the others stand by: a Lease of the API server says which (coordination.k8s.io/v1).

The lease alone fences nothing: a holder that was suspended may wake up late. What it writes then is refused by the
versions and uids that every write names, or is the same as what the new holder writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from recovery_planner.application.kube_ports import LEASES, KubeApi, KubeConflict, KubeNotFound, Obj
from recovery_planner.domain.kube_pods import read_time
from service_kit.cancellation import cancel_all
from service_kit.errors import ServiceError
from service_kit.logging import get_logger
from service_kit.ports import Clock

DURATION_S = 15
RENEW_EVERY_S = 5.0
GIVE_UP_S = 10.0
"""A holder that could not renew for so long stops, well before others may take over. As client-go has it."""
LOOK_EVERY_S = 2.0

log = get_logger(__name__)


@dataclass(slots=True)
class Lease:
    """One lease, and our name on it."""

    api: KubeApi
    clock: Clock
    namespace: str
    name: str
    identity: str
    _seen_version: str = ""
    _seen_at: float = 0.0

    async def hold(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Until cancelled: wait for the lease, work while it is ours, wait again."""
        while True:
            if not await self._try():
                await self.clock.sleep(LOOK_EVERY_S)
                continue
            log.info("lease_taken", lease=self.name, identity=self.identity)
            working = asyncio.create_task(work(), name="leader")
            renewing = asyncio.create_task(self._renew(), name="lease")
            try:
                await asyncio.wait((working, renewing), return_when=asyncio.FIRST_COMPLETED)
            finally:
                await cancel_all([working, renewing])
            if not working.cancelled() and (error := working.exception()) is not None:
                raise error
            log.warning("lease_lost", lease=self.name)

    async def _renew(self) -> None:
        """Returns when it could not be renewed in time, or is somebody else's."""
        renewed_s = self.clock.monotonic_s()
        while self.clock.monotonic_s() - renewed_s < GIVE_UP_S:
            await self.clock.sleep(RENEW_EVERY_S if self.clock.monotonic_s() == renewed_s else LOOK_EVERY_S)
            started_s = self.clock.monotonic_s()
            if await self._try():
                renewed_s = started_s
            elif self._seen_version:
                log.info("lease_not_renewed", lease=self.name)

    async def _try(self) -> bool:
        """Take or renew it; False: it is somebody else's, or nobody answers."""
        now = self.clock.now()
        try:
            try:
                lease = await self.api.get(LEASES, self.name, namespace=self.namespace)
            except KubeNotFound:
                await self.api.create(LEASES, self._body(now, transitions=0))
                return True
            spec = lease.get("spec") or {}
            ours = spec.get("holderIdentity") == self.identity
            if not ours and spec.get("holderIdentity") and not self._expired(lease):
                return False
            transitions = int(spec.get("leaseTransitions") or 0) + (0 if ours else 1)
            body = self._body(now, transitions=transitions, version=str(lease["metadata"]["resourceVersion"]))
            if ours and read_time(spec.get("acquireTime")) is not None:
                body["spec"]["acquireTime"] = spec["acquireTime"]
            await self.api.patch(LEASES, self.name, body, namespace=self.namespace)
        except KubeConflict:
            return False
        except ServiceError as error:
            log.warning("lease_not_asked", lease=self.name, error=str(error))
            return False
        return True

    def _expired(self, lease: Obj) -> bool:
        """By our own clock: unchanged for its whole duration since we first saw it so. Clocks may differ."""
        version = str(lease["metadata"]["resourceVersion"])
        if version != self._seen_version:
            self._seen_version, self._seen_at = version, self.clock.monotonic_s()
            return False
        duration_s = float((lease.get("spec") or {}).get("leaseDurationSeconds") or DURATION_S)
        return timedelta(seconds=self.clock.monotonic_s() - self._seen_at) > timedelta(seconds=duration_s)

    def _body(self, now: datetime, *, transitions: int, version: str = "") -> dict[str, dict[str, object]]:
        stamp = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        meta: dict[str, object] = {"name": self.name, "namespace": self.namespace}
        if version:
            meta["resourceVersion"] = version
        return {
            "metadata": meta,
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": DURATION_S,
                "acquireTime": stamp,
                "renewTime": stamp,
                "leaseTransitions": transitions,
            },
        }
