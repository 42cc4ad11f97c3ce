"""A stateful fake of a Kubernetes API server: what a controller can trip over, and no more.

Global resource versions and a log that forgets, stale writes, status apart from spec, selectors, three sorts of patch,
finalizers, owners, evictions under a disruption budget, roles, and faults between any two calls. The suite in
test_kube_contract.py says what it must share with a real server, and runs on one when there is one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import kube_ownership
from kube_admission import check_new, check_update, completed
from kube_call import Call, Rule, Trouble
from kube_departures import Departures, is_over
from kube_merge import copied, merge_patch, strategic_merge
from kube_refusals import STALE, ConnectionCut, Refused, conflict, exists, forbidden, no_such_kind, not_found
from kube_registry import BUILT_INS, ChangeLog, Known, Logged, known_of_definition
from kube_selectors import matches

Obj = dict[str, Any]


class Cluster(Departures):
    """The server's state. `serve` is what clients come through; the rest is for the test itself."""

    def __init__(self, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._lock = threading.RLock()
        self._known: dict[tuple[str, str, str], Known] = {}
        self._objects: dict[tuple[str, str], dict[tuple[str, str], Obj]] = {}
        self._version = 0
        self._uids = 0
        self.log = ChangeLog()
        self.calls: list[Call] = []
        """Everything that was asked, in order."""
        self.troubles: list[Trouble] = []
        self.rules: dict[str, list[Rule]] = {}
        """By user; a user that is not named may do everything."""
        self.listeners: list[Callable[[], None]] = []
        self.before_call: Callable[[Call], None] | None = None
        self.after_call: Callable[[Call], None] | None = None
        for known in BUILT_INS:
            self.register(known)
        for name in ("default", "kube-system"):
            self.create("namespaces", {"metadata": {"name": name}})

    # ------------------------------------------------------------------------------------------------ for clients

    def serve(self, call: Call) -> Obj:
        """One request, with roles and troubles.

        Raises:
            Refused: an answer that is an error.
            ConnectionCut: no answer.
        """
        with self._lock:
            if self.before_call is not None:
                self.before_call(call)
            self.calls.append(call)
            trouble = next((trouble for trouble in self.troubles if trouble.hits(call)), None)
            if trouble is not None and not trouble.after:
                raise _as_error(trouble)
            self._allow(call)
            answer = self._do(call)
            if self.after_call is not None:
                self.after_call(call)
            if trouble is not None:
                raise _as_error(trouble)
            return answer

    def changes_since(self, version: int, call: Call) -> list[tuple[int, str, Mapping[str, Any]]]:
        """For a watch that is under way."""
        with self._lock:
            known = self.known(call)
            found = self.log.since(version, known, namespace=call.namespace, labels=call.labels, fields=call.fields)
            return [(at, change, copied(obj)) for at, change, obj in found]

    @property
    def version(self) -> int:
        return self._version

    # ------------------------------------------------------------------------------------------------ for the test

    def register(self, known: Known) -> None:
        """Serve one more kind."""
        self._known[known.group, known.version, known.plural] = known
        self._objects.setdefault((known.group, known.plural), {})

    def expire(self) -> None:
        """Forget all changes: every watch that was interrupted is told 410."""
        self.log.forget_until(self._version)

    def create(self, plural: str, body: Mapping[str, Any], *, namespace: str = "", group: str = "") -> Obj:
        """As an administrator, without troubles and counting."""
        return self._quietly("create", plural, group, namespace, str(body["metadata"].get("name", "")), body=body)

    def get(self, plural: str, name: str, *, namespace: str = "", group: str = "") -> Obj:
        """See create."""
        return self._quietly("get", plural, group, namespace, name)

    def all(self, plural: str, *, namespace: str = "", group: str = "", labels: str = "") -> list[Obj]:
        """See create."""
        listed = self._quietly("list", plural, group, namespace, "", labels=labels)
        return list(listed["items"])

    def patch(
        self, plural: str, name: str, body: Mapping[str, Any], *, namespace: str = "", group: str = "",
        subresource: str = "", manager: str = "test",
    ) -> Obj:  # fmt: skip
        """See create; strategic where the kind has it."""
        return self._quietly(
            "patch", plural, group, namespace, name, body=body, subresource=subresource, manager=manager,
            patch="merge" if group else "strategic",
        )  # fmt: skip

    def delete(
        self, plural: str, name: str, *, namespace: str = "", group: str = "", grace_s: int | None = None
    ) -> None:
        """See create."""
        body = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
        self._quietly("delete", plural, group, namespace, name, body=body)

    def find(self, plural: str, name: str, *, namespace: str = "", group: str = "") -> Obj | None:
        """None when it is not there."""
        try:
            return self.get(plural, name, namespace=namespace, group=group)
        except Refused:
            return None

    def _quietly(self, verb: str, plural: str, group: str, namespace: str, name: str, **more: Any) -> Obj:
        versions = [known.version for key, known in self._known.items() if (key[0], key[2]) == (group, plural)]
        version = versions[0] if versions else "v1"
        with self._lock:
            return self._do(
                Call(verb=verb, plural=plural, group=group, version=version, namespace=namespace, name=name, **more)
            )

    # ------------------------------------------------------------------------------------------------ the work

    def known(self, call: Call) -> Known:
        found = self._known.get((call.group, call.version, call.plural))
        if found is None:
            raise no_such_kind()
        return found

    def plurals(self, group: str, version: str) -> list[str]:
        """For discovery."""
        return [known.plural for known in self._known.values() if (known.group, known.version) == (group, version)]

    def _allow(self, call: Call) -> None:
        rules = self.rules.get(call.user)
        if rules is not None and not any(rule.allows(call) for rule in rules):
            raise forbidden(
                self.known(call).what, call.name,
                f'User "{call.user}" cannot {call.rbac_verb} resource "{call.resource}" in API group "{call.group}"',
            )  # fmt: skip

    def _do(self, call: Call) -> Obj:
        known = self.known(call)
        match call.verb:
            case "list" | "watch":
                return self._list(known, call)
            case "get":
                return copied(self._one(known, call))
            case "create":
                return self._create(known, call)
            case "delete":
                return self._delete(known, call)
            case "evict":
                return self._evict(known, call)
            case _:
                return self._change(known, call)

    def _one(self, known: Known, call: Call) -> Obj:
        found = self._objects[known.group, known.plural].get((call.namespace, call.name))
        if found is None:
            raise not_found(known.what, call.name)
        return found

    def _list(self, known: Known, call: Call) -> Obj:
        items = [
            copied(obj)
            for _, obj in sorted(self._objects[known.group, known.plural].items())
            if matches(obj, kind=known.kind, namespace=call.namespace, labels=call.labels, fields=call.fields)
        ]
        return {
            "kind": f"{known.kind}List",
            "apiVersion": _api_version(known),
            "metadata": {"resourceVersion": str(self._version)},
            "items": items,
        }

    def _create(self, known: Known, call: Call) -> Obj:
        obj = merge_patch({}, call.body)
        obj["apiVersion"], obj["kind"] = _api_version(known), known.kind
        metadata = obj.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = f"{metadata['generateName']}{self._uids + 1:05x}"
        metadata["namespace"] = call.namespace
        if not known.namespaced:
            del metadata["namespace"]
        name = metadata.get("name", "")
        self._room_in(known, call, name)
        if (call.namespace, name) in self._objects[known.group, known.plural]:
            raise exists(known.what, name)
        if known.has_status and known.plural not in ("namespaces", "nodes", "pods"):
            obj.pop("status", None)
        self._uids += 1
        metadata.update(
            uid=f"{self._uids:08x}-0000-4000-8000-000000000000", creationTimestamp=self._stamp(), generation=1
        )
        obj = completed(obj, known)
        check_new(obj, known)
        if call.verb == "apply":
            obj, _ = kube_ownership.apply(
                {"apiVersion": obj["apiVersion"], "metadata": {}}, obj, manager=call.manager,
                subresource=call.subresource, force=True, keys=known.keys, time=self._stamp(),
            )  # fmt: skip
        else:
            kube_ownership.take_changed(
                {}, obj, manager=call.manager, subresource="", keys=known.keys, time=self._stamp()
            )
        self._store(known, obj, None)
        if known.kind == "CustomResourceDefinition":
            for custom in known_of_definition(obj):
                self.register(custom)
        return copied(obj)

    def _room_in(self, known: Known, call: Call, name: str) -> None:
        if not known.namespaced:
            return
        namespace = self._objects["", "namespaces"].get(("", call.namespace))
        if namespace is None:
            raise not_found("namespaces", call.namespace)
        if namespace["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {call.namespace} because it is being terminated"
            cause = ("NamespaceTerminating", "metadata.namespace", f"namespace {call.namespace} is being terminated")
            raise forbidden(known.what, name, why, causes=(cause,))

    def _change(self, known: Known, call: Call) -> Obj:
        live = self._objects[known.group, known.plural].get((call.namespace, call.name))
        wanted_version = call.body.get("metadata", {}).get("resourceVersion")
        wanted_uid = call.body.get("metadata", {}).get("uid")
        if live is None:
            if call.verb == "apply" and not call.subresource and not wanted_version and not wanted_uid:
                return self._create(known, call)
            raise not_found(known.what, call.name)
        if wanted_uid and wanted_uid != live["metadata"]["uid"]:
            raise conflict(
                known.what, call.name, f"Precondition failed: UID in precondition: {wanted_uid}, "
                f"UID in object meta: {live['metadata']['uid']}",
            )  # fmt: skip
        if wanted_version and wanted_version != live["metadata"]["resourceVersion"]:
            raise conflict(known.what, call.name, STALE)
        new = self._changed(known, call, live)
        for kept in ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "generation"):
            if kept in live["metadata"]:
                new["metadata"][kept] = live["metadata"][kept]
        new = completed(new, known)
        check_update(live, new, known)
        if call.verb != "apply":
            kube_ownership.take_changed(
                live, new, manager=call.manager, subresource=call.subresource, keys=known.keys, time=self._stamp()
            )
        if _content(new) == _content(live):
            return copied(live)
        if {**_content(new), "metadata": 0, "status": 0} != {**_content(live), "metadata": 0, "status": 0}:
            new["metadata"]["generation"] = live["metadata"].get("generation", 1) + 1
        if new["metadata"].get("deletionTimestamp") and not new["metadata"].get("finalizers") and _may_go(new):
            self._remove(known, live, new)
        else:
            self._store(known, new, live)
        return copied(new)

    def _changed(self, known: Known, call: Call, live: Obj) -> Obj:
        body = {**call.body, "metadata": dict(call.body.get("metadata", {}))}
        body["metadata"].pop("managedFields", None)
        if call.subresource == "status":
            if not known.has_status:
                raise no_such_kind()
            body = {"status": body.get("status", {}), "metadata": {}}
        elif known.has_status:
            body.pop("status", None)
        if call.verb == "apply":
            body["metadata"].pop("resourceVersion", None)
            new, conflicts = kube_ownership.apply(
                live, body, manager=call.manager, subresource=call.subresource, force=call.force, keys=known.keys,
                time=self._stamp(),
            )  # fmt: skip
            if conflicts:
                said = tuple(("FieldManagerConflict", field, f'conflict with "{who}"') for field, who in conflicts)
                message = f"Apply failed with {len(said)} conflict(s): " + "; ".join(f"{s[2]}: {s[1]}" for s in said)
                raise Refused(409, "Conflict", message, causes=said)
            return new
        if call.verb == "update":
            whole = copied(live)
            if call.subresource == "status":
                whole["status"] = body["status"]
                return whole
            return {**merge_patch({}, body), **({"status": live["status"]} if "status" in live else {})}
        if call.patch == "strategic" and known.schema is not None:
            raise Refused(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
        new = strategic_merge(live, body, known.keys) if call.patch == "strategic" else merge_patch(live, body)
        return dict(new)

    def _store(self, known: Known, obj: Obj, before: Obj | None) -> None:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        self._objects[known.group, known.plural][key] = obj
        change = "ADDED" if before is None else "MODIFIED"
        self.log.add(Logged(version=self._version, known=known, change=change, object=obj, before=before))
        self._poke()

    def _remove(self, known: Known, before: Obj, last: Obj) -> None:
        self._version += 1
        last = copied(last)
        last["metadata"]["resourceVersion"] = str(self._version)
        del self._objects[known.group, known.plural][
            before["metadata"].get("namespace", ""), before["metadata"]["name"]
        ]
        self.log.add(Logged(version=self._version, known=known, change="DELETED", object=last, before=before))
        self._poke()
        self._collect(before["metadata"]["uid"])

    def _poke(self) -> None:
        for listener in list(self.listeners):
            listener()

    def _stamp(self) -> str:
        return self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _as_error(trouble: Trouble) -> Exception:
    if not trouble.status:
        return ConnectionCut("connection reset by peer")
    reasons = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}
    reason = reasons.get(trouble.status, "Unknown")
    return Refused(trouble.status, reason, f"planned: {reason}", retry_after_s=trouble.retry_after_s)


def _api_version(known: Known) -> str:
    return f"{known.group}/{known.version}" if known.group else known.version


def _content(obj: Obj) -> Obj:
    """Without what changes by itself."""
    metadata = {k: v for k, v in obj["metadata"].items() if k not in ("resourceVersion", "managedFields")}
    owned = [{**entry, "time": ""} for entry in obj["metadata"].get("managedFields", [])]
    return {**obj, "metadata": {**metadata, "managedFields": owned}}


def _may_go(obj: Obj) -> bool:
    """A pod that is being deleted waits for its kubelet."""
    return obj["kind"] not in ("Pod", "Namespace") or is_over(obj)
