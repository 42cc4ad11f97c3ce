"""The fake cluster behind HTTP, for the official client: paths, patches, watches, tokens."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any

import uvicorn
from kube_call import Call
from kube_cluster import Cluster
from kube_refusals import ConnectionCut, Refused
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

_PATCHES = {
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete", "GET": "get"}
POLL_S = 0.01


class HttpCluster:
    """A server on loopback in a thread of its own; `url` once it is started."""

    def __init__(self, cluster: Cluster, *, tokens: Mapping[str, str] | None = None) -> None:
        self.cluster = cluster
        self._tokens = dict(tokens or {})
        self._stopping = threading.Event()
        app = Starlette(routes=[Route("/{path:path}", self._answer, methods=list(_VERBS))])
        settings = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off", loop="asyncio")
        self._server = uvicorn.Server(settings)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self.url = ""
        self.cut_watches = 0
        """A test adds one to break every watch that is under way."""

    def start(self) -> None:
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise RuntimeError("the fake API server did not start")
            self._stopping.wait(0.005)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"

    def stop(self) -> None:
        self._stopping.set()
        self._server.should_exit = True
        self._thread.join(timeout=10)

    async def _answer(self, request: Request) -> Response:
        try:
            call = await self._call_of(request)
            if call is None:
                return self._resources(request.url.path)
            if request.query_params.get("watch") in ("1", "true"):
                self.cluster.serve(call)
                return StreamingResponse(self._watch(call, request), media_type="application/json")
            return JSONResponse(self.cluster.serve(call), status_code=201 if call.verb in ("create", "evict") else 200)
        except Refused as refused:
            headers = {} if refused.retry_after_s is None else {"Retry-After": str(refused.retry_after_s)}
            return JSONResponse(refused.body, status_code=refused.status, headers=headers)
        except ConnectionCut:
            return StreamingResponse(_cut(), media_type="application/json", headers={"Content-Length": "1000"})

    async def _call_of(self, request: Request) -> Call | None:
        parts = [part for part in request.url.path.split("/") if part]
        group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
        if not rest:
            return None
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource = (*rest, "", "")[:3]
        raw = await request.body()
        query = request.query_params
        verb = _VERBS[request.method]
        patch = ""
        if verb == "patch":
            patch = _PATCHES[request.headers["content-type"]]
            verb = "apply" if patch == "apply" else "patch"
        if verb == "get" and not name:
            verb = "watch" if query.get("watch") in ("1", "true") else "list"
        body = json.loads(raw) if raw else {}
        if subresource == "eviction":
            verb, subresource = "evict", ""
        return Call(
            verb=verb, plural=plural, group=group, version=version, namespace=namespace, body=body, patch=patch,
            name=name or str(body.get("metadata", {}).get("name", "")) if verb != "list" else "",
            subresource=subresource, manager=query.get("fieldManager", "unknown"), force=query.get("force") == "true",
            labels=query.get("labelSelector", ""), fields=query.get("fieldSelector", ""), user=self._user(request),
        )  # fmt: skip

    def _user(self, request: Request) -> str:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if not self._tokens:
            return "admin"
        if token not in self._tokens:
            raise Refused(401, "Unauthorized", "Unauthorized")
        return self._tokens[token]

    def _resources(self, path: str) -> Response:
        """Discovery of one group and version."""
        parts = [part for part in path.split("/") if part]
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
        names = [{"name": plural} for plural in self.cluster.plurals(group, version)]
        if not names:
            return JSONResponse(Refused(404, "NotFound", "no such group").body, status_code=404)
        return JSONResponse({"kind": "APIResourceList", "resources": names})

    async def _watch(self, call: Call, request: Request) -> AsyncIterator[bytes]:
        query = request.query_params
        version = int(query.get("resourceVersion") or self.cluster.version)
        until = asyncio.get_running_loop().time() + float(query.get("timeoutSeconds", "300"))
        cuts = self.cut_watches
        while asyncio.get_running_loop().time() < until and not self._stopping.is_set():
            if cuts != self.cut_watches:
                raise ConnectionCut
            try:
                changes = self.cluster.changes_since(version, call)
            except Refused as refused:
                yield _line("ERROR", refused.body)
                return
            for version, change, obj in changes:  # noqa: B007 - the watch goes on from the last
                yield _line(change, obj)
            await asyncio.sleep(POLL_S)
        version = self.cluster.version
        yield _line("BOOKMARK", {"kind": "", "metadata": {"resourceVersion": str(version)}})


def _line(change: str, obj: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": change, "object": obj}).encode() + b"\n"


async def _cut() -> AsyncIterator[bytes]:
    """Fewer bytes than were promised: the client's connection breaks in the middle of the answer."""
    yield b"{"
    raise ConnectionCut
