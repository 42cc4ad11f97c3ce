"""The operator's port straight on the fake cluster: no sockets and no threads, so it runs on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from kube_call import Call
from kube_cluster import Cluster
from kube_merge import copied
from kube_refusals import ConnectionCut, Refused

from recovery_planner.adapters.kube_errors import kube_error
from recovery_planner.adapters.kube_events import event_body
from recovery_planner.adapters.kube_paths import delete_options
from recovery_planner.application.kube_ports import (
    EVENTS,
    FIELD_MANAGER,
    PODS,
    Change,
    Changed,
    Kind,
    KubeAlreadyExists,
    KubeError,
    KubeEvent,
    KubeUnavailable,
    Listing,
    Obj,
)

BOOKMARK_S = 60.0


class Killed(BaseException):
    """The operator's process ends here."""


class MemoryKube:
    """recovery_planner.application.kube_ports.KubeApi. `user`: whose roles count.

    `kill_at`: the number of the call, from 0 on, at which the process dies; before it is done, or with `kill_after`
    when it is done and the answer is on its way.
    """

    def __init__(self, cluster: Cluster, *, user: str = "phalanx-operator") -> None:
        self._cluster = cluster
        self._user = user
        self.calls = 0
        self.kill_at: int | None = None
        self.kill_after = False
        self.down = False
        """Nothing is answered, and watches break."""

    async def get(self, kind: Kind, name: str, *, namespace: str = "") -> Obj:
        return await self._call("get", kind, namespace=namespace, name=name)

    async def list(self, kind: Kind, *, namespace: str = "", labels: str = "", fields: str = "") -> Listing:
        found = await self._call("list", kind, namespace=namespace, labels=labels, fields=fields)
        return Listing(items=tuple(found["items"]), resource_version=found["metadata"]["resourceVersion"])

    async def watch(
        self, kind: Kind, *, resource_version: str, namespace: str = "", labels: str = "", fields: str = "",
        timeout_s: float = 300.0,
    ) -> AsyncIterator[Changed]:  # fmt: skip
        call = self._of("watch", kind, namespace=namespace, labels=labels, fields=fields)
        await self._call("watch", kind, namespace=namespace, labels=labels, fields=fields)
        woken = asyncio.Event()
        self._cluster.listeners.append(woken.set)
        until = asyncio.get_running_loop().time() + timeout_s
        version = int(resource_version or self._cluster.version)
        try:
            while (left_s := until - asyncio.get_running_loop().time()) > 0:
                woken.clear()
                if self.down:
                    raise KubeUnavailable("the watch broke")
                try:
                    changes = self._cluster.changes_since(version, call)
                except Refused as refused:
                    raise kube_error(refused.status, refused.body) from None
                for version, change, obj in changes:  # noqa: B007 - the watch goes on from the last
                    yield Changed(change=Change(change), object=obj)
                try:
                    await asyncio.wait_for(woken.wait(), min(left_s, BOOKMARK_S))
                except TimeoutError:
                    version = self._cluster.version
                    yield Changed(change=Change.BOOKMARK, object=_bookmark(kind, version))
        finally:
            self._cluster.listeners.remove(woken.set)

    async def create(self, kind: Kind, body: Obj) -> Obj:
        metadata = body["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
        return await self._call("create", kind, namespace=namespace, name=name, body=body)

    async def apply(self, kind: Kind, body: Obj, *, subresource: str = "", force: bool = False) -> Obj:
        metadata = body["metadata"]
        return await self._call(
            "apply", kind, namespace=metadata.get("namespace", ""), name=metadata["name"], body=body,
            subresource=subresource, force=force,
        )  # fmt: skip

    async def patch(
        self, kind: Kind, name: str, body: Obj, *, namespace: str = "", subresource: str = "", strategic: bool = False
    ) -> Obj:
        return await self._call(
            "patch", kind, namespace=namespace, name=name, body=body, subresource=subresource,
            patch="strategic" if strategic else "merge",
        )  # fmt: skip

    async def delete(
        self, kind: Kind, name: str, *, namespace: str = "", uid: str = "", resource_version: str = "",
        grace_s: int | None = None,
    ) -> None:  # fmt: skip
        body = delete_options(uid=uid, resource_version=resource_version, grace_s=grace_s)
        await self._call("delete", kind, namespace=namespace, name=name, body=body)

    async def evict(self, name: str, *, namespace: str, uid: str = "", grace_s: int | None = None) -> None:
        body = {"deleteOptions": delete_options(uid=uid, resource_version="", grace_s=grace_s)}
        await self._call("evict", PODS, namespace=namespace, name=name, body=body)

    async def tell(self, event: KubeEvent) -> None:
        try:
            await self.create(EVENTS, event_body(event))
        except KubeAlreadyExists:
            return

    async def serves(self, kind: Kind) -> bool:
        try:
            self._cluster.known(self._of("list", kind))
        except Refused:
            return False
        return True

    def _of(self, verb: str, kind: Kind, **more: Any) -> Call:
        return Call(
            verb=verb, plural=kind.plural, group=kind.group, version=kind.version, manager=FIELD_MANAGER,
            user=self._user, **more,
        )  # fmt: skip

    async def _call(self, verb: str, kind: Kind, **more: Any) -> dict[str, Any]:
        """As a client sees it: others run before there is an answer."""
        number, self.calls = self.calls, self.calls + 1
        if number == self.kill_at and not self.kill_after:
            raise Killed(f"before call {number}: {verb} {kind.plural}")
        await asyncio.sleep(0)
        try:
            if self.down:
                raise KubeUnavailable("the API server is down")
            answer = copied(self._cluster.serve(self._of(verb, kind, **more)))
        except (Refused, ConnectionCut) as error:
            raise _as_seen(error) from None
        if number == self.kill_at:
            raise Killed(f"after call {number}: {verb} {kind.plural}")
        return answer


def _as_seen(error: Refused | ConnectionCut) -> KubeError:
    if isinstance(error, ConnectionCut):
        return KubeUnavailable(str(error))
    return kube_error(error.status, error.body, retry_after_s=error.retry_after_s)


def _bookmark(kind: Kind, version: int) -> dict[str, Any]:
    return {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": {"resourceVersion": str(version)}}
