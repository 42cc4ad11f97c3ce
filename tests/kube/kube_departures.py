"""How objects leave the fake API server: deletion with preconditions, grace and finalizers, eviction, owners."""

from __future__ import annotations

from typing import Any

from kube_call import Call
from kube_merge import copied, strategic_merge
from kube_refusals import budget, conflict
from kube_registry import Known
from kube_selectors import labels_match

Obj = dict[str, Any]


def is_over(pod: Obj) -> bool:
    """Its containers have ended."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


class Departures:
    """Part of kube_cluster.Cluster."""

    _known: dict[tuple[str, str, str], Known]
    _objects: dict[tuple[str, str], dict[tuple[str, str], Obj]]

    def _one(self, known: Known, call: Call) -> Obj:
        raise NotImplementedError

    def _stamp(self) -> str:
        raise NotImplementedError

    def _store(self, known: Known, obj: Obj, before: Obj | None) -> None:
        raise NotImplementedError

    def _remove(self, known: Known, before: Obj, last: Obj) -> None:
        raise NotImplementedError

    def _quietly(self, verb: str, plural: str, group: str, namespace: str, name: str, **more: Any) -> Obj:
        raise NotImplementedError

    def _delete(self, known: Known, call: Call) -> Obj:
        live = self._one(known, call)
        wanted = call.body.get("preconditions") or {}
        if wanted.get("uid", live["metadata"]["uid"]) != live["metadata"]["uid"]:
            why = f"Precondition failed: UID in precondition: {wanted['uid']}, UID in object meta: "
            raise conflict(known.what, call.name, why + live["metadata"]["uid"])
        if wanted.get("resourceVersion", live["metadata"]["resourceVersion"]) != live["metadata"]["resourceVersion"]:
            raise conflict(known.what, call.name, "Precondition failed: ResourceVersion")
        grace_s = call.body.get("gracePeriodSeconds")
        if known.kind == "Pod" and grace_s is None:
            grace_s = live["spec"].get("terminationGracePeriodSeconds", 30)
        lingers = known.kind == "Pod" and bool(grace_s) and not is_over(live) and bool(live["spec"].get("nodeName"))
        if not lingers and not live["metadata"].get("finalizers") and known.kind != "Namespace":
            self._remove(known, live, live)
            return copied(live)
        new = copied(live)
        first = "deletionTimestamp" not in new["metadata"]
        new["metadata"].setdefault("deletionTimestamp", self._stamp())
        if known.kind == "Pod" and first:
            new["metadata"]["deletionGracePeriodSeconds"] = grace_s
        if known.kind == "Namespace":
            new["status"] = {"phase": "Terminating"}
        if new != live:
            self._store(known, new, live)
        return copied(new)

    def _evict(self, known: Known, call: Call) -> Obj:
        pod = self._one(known, call)
        if not is_over(pod) and not pod["metadata"].get("deletionTimestamp"):
            for (namespace, name), limit in self._objects["policy", "poddisruptionbudgets"].items():
                labels = limit["spec"].get("selector", {}).get("matchLabels", {})
                selector = ",".join(f"{k}={v}" for k, v in labels.items())
                if namespace == call.namespace and labels_match(selector, pod) and not self._spare(limit, selector):
                    raise budget(call.name, name)
        new = copied(pod)
        condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                     "message": "Eviction API: evicting", "lastTransitionTime": self._stamp()}  # fmt: skip
        new["status"] = strategic_merge(new.get("status", {}), {"conditions": [condition]}, known.keys)
        options = dict(call.body.get("deleteOptions") or {})
        wanted = (options.get("preconditions") or {}).get("uid")
        if wanted in (None, pod["metadata"]["uid"]):
            self._store(known, new, pod)
        self._delete(known, Call(verb="delete", plural="pods", namespace=call.namespace, name=call.name, body=options))
        return {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}

    def _spare(self, limit: Obj, selector: str) -> bool:
        """Whether one more pod may go."""
        namespace = limit["metadata"]["namespace"]
        covered = [
            pod for pod in self._objects["", "pods"].values()
            if pod["metadata"]["namespace"] == namespace and labels_match(selector, pod)
        ]  # fmt: skip
        healthy = [
            pod for pod in covered
            if pod.get("status", {}).get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")
        ]  # fmt: skip
        if "minAvailable" in limit["spec"]:
            return len(healthy) - 1 >= int(limit["spec"]["minAvailable"])
        return len(covered) - len(healthy) + 1 <= int(limit["spec"].get("maxUnavailable", 1))

    def _collect(self, owner_uid: str) -> None:
        """The garbage collector: what has no owner left goes."""
        uids = {obj["metadata"]["uid"] for objects in self._objects.values() for obj in objects.values()}
        for known in list(self._known.values()):
            for (namespace, name), obj in list(self._objects[known.group, known.plural].items()):
                owners = [owner["uid"] for owner in obj["metadata"].get("ownerReferences", [])]
                if owner_uid in owners and not uids & set(owners) and not obj["metadata"].get("deletionTimestamp"):
                    self._quietly("delete", known.plural, known.group, namespace, name)
