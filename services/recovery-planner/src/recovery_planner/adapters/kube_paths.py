"""Where an object lives on the server, and how a request for it is spelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from recovery_planner.application.kube_ports import FIELD_MANAGER, PODS, Kind, Obj

JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
LIST_PAGE = 500
"""Objects a request; a list is read page by page, so that no answer is larger than some megabytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = JSON

    @property
    def target(self) -> str:
        """Path and query."""
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


def path_of(kind: Kind, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
    """As the API server spells it. Names are quoted: one with a slash is an object that is not there, no other path."""
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace and kind.namespaced else ""
    rest = "".join(f"/{quote(part, safe='')}" for part in (name, subresource) if part)
    return f"{root}{place}/{kind.plural}{rest}"


def list_request(kind: Kind, *, namespace: str, labels: str, fields: str, page: str = "") -> Request:
    """One page of a list."""
    query = {"labelSelector": labels, "fieldSelector": fields, "limit": str(LIST_PAGE), "continue": page}
    chosen = {name: value for name, value in query.items() if value}
    return Request(method="GET", path=path_of(kind, namespace=namespace), query=chosen)


def watch_request(
    kind: Kind, *, namespace: str, labels: str, fields: str, resource_version: str, timeout_s: float
) -> Request:
    """A watch with bookmarks that the server ends."""
    query = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "labelSelector": labels,
        "fieldSelector": fields,
        "resourceVersion": resource_version,
        "timeoutSeconds": str(max(1, round(timeout_s))),
    }
    chosen = {name: value for name, value in query.items() if value}
    return Request(method="GET", path=path_of(kind, namespace=namespace), query=chosen)


def create_request(kind: Kind, body: Obj) -> Request:
    """A new object."""
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
    path = path_of(kind, namespace=_namespace(body))
    return Request(method="POST", path=path, query={"fieldManager": FIELD_MANAGER}, body=whole)


def apply_request(kind: Kind, body: Obj, *, subresource: str, force: bool) -> Request:
    """Server-side apply; JSON is YAML."""
    whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
    name = str(body["metadata"]["name"])
    query = {"fieldManager": FIELD_MANAGER, **({"force": "true"} if force else {})}
    path = path_of(kind, namespace=_namespace(body), name=name, subresource=subresource)
    return Request(method="PATCH", path=path, query=query, body=whole, content_type=APPLY)


def patch_request(kind: Kind, name: str, body: Obj, *, namespace: str, subresource: str, strategic: bool) -> Request:
    """Merge patch."""
    return Request(
        method="PATCH",
        path=path_of(kind, namespace=namespace, name=name, subresource=subresource),
        query={"fieldManager": FIELD_MANAGER},
        body=body,
        content_type=STRATEGIC if strategic else MERGE,
    )


def delete_options(*, uid: str, resource_version: str, grace_s: int | None) -> dict[str, Any]:
    """Preconditions and grace. Background: dependants go by the garbage collector, the call does not wait for them."""
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    wanted = {"uid": uid, "resourceVersion": resource_version}
    if uid or resource_version:
        options["preconditions"] = {name: value for name, value in wanted.items() if value}
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    return options


def evict_request(name: str, *, namespace: str, uid: str, grace_s: int | None) -> Request:
    """policy/v1 Eviction."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
        "deleteOptions": delete_options(uid=uid, resource_version="", grace_s=grace_s),
    }
    path = path_of(PODS, namespace=namespace, name=name, subresource="eviction")
    return Request(method="POST", path=path, body=body)


def _namespace(body: Obj) -> str:
    return str(body["metadata"].get("namespace", ""))
