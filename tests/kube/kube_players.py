"""Who else works in a cluster: a scheduler that binds pods, kubelets that run them, a machine that dies.

Played by the test, so that every order of events can be tried. On the fake only; on a real server the same moves are
made through its API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from kube_cluster import Cluster

Obj = dict[str, Any]
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "kubelet is posting ready status"}
LOST = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting"}


class Players:
    """Moves of a cluster's other inhabitants."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.lost: set[str] = set()

    def add_node(self, name: str, *, labels: Mapping[str, str] | None = None, taints: Iterable[Obj] = ()) -> Obj:
        """A machine that joins."""
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}}
        spec = {"taints": list(taints)} if taints else {}
        return self._cluster.create("nodes", {"metadata": metadata, "spec": spec, "status": {"conditions": [READY]}})

    def schedule(self) -> list[str]:
        """Bind every pending pod that fits: one pod a node, as gang pods want whole machines. Returns their names."""
        bound = []
        busy = {pod["spec"].get("nodeName") for pod in self._pods() if not _over(pod)}
        for pod in self._pods():
            if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp") or _over(pod):
                continue
            node = next((node for node in self._free_nodes(pod) if node not in busy), None)
            if node is not None:
                busy.add(node)
                self._patch(pod, {"spec": {"nodeName": node}})
                bound.append(pod["metadata"]["name"])
        return bound

    def run(self) -> list[str]:
        """Kubelets start what is bound, and end what is to be deleted."""
        started = []
        for pod in self._pods():
            node = pod["spec"].get("nodeName")
            if not node or node in self.lost:
                continue
            if pod["metadata"].get("deletionTimestamp"):
                self._gone(pod)
            elif pod.get("status", {}).get("phase", "Pending") == "Pending":
                self.set_phase(pod, "Running", ready=True)
                started.append(pod["metadata"]["name"])
        return started

    def settle(self) -> None:
        """Scheduler and kubelets, once."""
        self.schedule()
        self.run()

    def end(self, name: str, *, namespace: str, code: int) -> None:
        """The pod's container ends with this code."""
        pod = self._cluster.get("pods", name, namespace=namespace)
        container = pod["spec"]["containers"][0]["name"]
        ended = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "finishedAt": _stamp()}
        status = {"name": container, "ready": False, "restartCount": 0, "state": {"terminated": ended}}
        self.set_phase(pod, "Succeeded" if code == 0 else "Failed", ready=False, containers=[status])

    def set_phase(self, pod: Obj, phase: str, *, ready: bool, containers: list[Obj] | None = None) -> None:
        """As the kubelet reports it."""
        condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": _stamp()}
        status: Obj = {"phase": phase, "conditions": [condition]}
        if containers is not None:
            status["containerStatuses"] = containers
        self._patch(pod, {"status": status}, subresource="status")

    def lose_node(self, name: str) -> None:
        """The machine dies: its kubelet is silent, the node controller says so after its grace."""
        self.lost.add(name)
        self._cluster.patch("nodes", name, {"status": {"conditions": [LOST]}}, subresource="status", manager="kcm")

    def taint(self, name: str, key: str, effect: str = "NoSchedule") -> None:
        """Somebody else taints a node."""
        taints = self._cluster.get("nodes", name)["spec"].get("taints", [])
        self._cluster.patch("nodes", name, {"spec": {"taints": [*taints, {"key": key, "effect": effect}]}})

    def _pods(self) -> list[Obj]:
        return self._cluster.all("pods")

    def _free_nodes(self, pod: Obj) -> Iterable[str]:
        tolerated = {(t.get("key"), t.get("effect")) for t in pod["spec"].get("tolerations", [])}
        avoided = _avoided(pod)
        for node in self._cluster.all("nodes"):
            name = node["metadata"]["name"]
            hard = [t for t in node["spec"].get("taints", []) if t["effect"] != "PreferNoSchedule"]
            closed = any((t["key"], t["effect"]) not in tolerated and (t["key"], None) not in tolerated for t in hard)
            if not closed and not node["spec"].get("unschedulable") and name not in self.lost | avoided:
                yield name

    def _patch(self, pod: Obj, body: Obj, *, subresource: str = "") -> None:
        metadata = pod["metadata"]
        self._cluster.patch(
            "pods", metadata["name"], body, namespace=metadata["namespace"], subresource=subresource, manager="kubelet"
        )

    def _gone(self, pod: Obj) -> None:
        self._cluster.delete("pods", pod["metadata"]["name"], namespace=pod["metadata"]["namespace"], grace_s=0)


def _over(pod: Obj) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _avoided(pod: Obj) -> set[str]:
    """Nodes that required node affinity excludes by host name."""
    terms = (
        pod["spec"].get("affinity", {}).get("nodeAffinity", {})
        .get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    )  # fmt: skip
    return {
        value
        for term in terms
        for rule in [*term.get("matchExpressions", []), *term.get("matchFields", [])]
        if rule["operator"] == "NotIn" and rule["key"] in ("kubernetes.io/hostname", "metadata.name")
        for value in rule["values"]
    }


def _stamp() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
