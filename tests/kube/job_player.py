"""Scheduler, kubelets and node controller for the operator's scenarios, as far as a pod's life needs them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from kube_cluster import Cluster, Obj
from kube_refusals import Refused

from recovery_planner.domain.kube_job_status import api_time
from recovery_planner.domain.kube_pods import LABEL_UID, read_time
from service_kit.ports import Clock

ROUND_S = 0.5
GRACE_KEPT_S = 2.0
"""What the launchers of these scenarios take to save and stop."""
AWAY_TOLERATED_S = 30.0


def peek(cluster: Cluster, plural: str, group: str = "") -> list[Obj]:
    """All objects without copying them: the cluster never changes a stored one, and nobody here may."""
    return [obj for _, obj in sorted(cluster._objects[group, plural].items())]


class Player:
    """Plays until cancelled. What a test does to it happens at its next round."""

    def __init__(self, cluster: Cluster, clock: Clock, *, nodes: int) -> None:
        self.cluster = cluster
        self.clock = clock
        self.dead: set[str] = set()
        """Nodes whose kubelet is gone."""
        self.full: set[str] = set()
        """Nodes that take nothing any more: cordoned, tainted, or used by others."""
        self.exit_codes: dict[str, int] = {}
        """Pod → exit code that its launcher ends with."""
        self._away_since: dict[str, float] = {}
        for number in range(nodes):
            self.add_node(f"n{number:03d}")

    def add_node(self, name: str) -> None:
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": self._stamp()}
        self.cluster.create("nodes", {"metadata": {"name": name}, "spec": {}, "status": {"conditions": [ready]}})

    def lose_node(self, name: str) -> None:
        """Its machine is gone; Kubernetes finds out."""
        self.dead.add(name)
        self._away_since[name] = self.clock.monotonic_s()
        away = {
            "type": "Ready",
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "lastTransitionTime": self._stamp(),
        }
        self.cluster.patch("nodes", name, {"status": {"conditions": [away]}}, subresource="status")

    def end(self, pod: Obj, code: int) -> None:
        """Its launcher leaves with this code."""
        self.exit_codes[pod["metadata"]["uid"]] = code

    async def run(self) -> None:
        while True:
            await self.clock.sleep(ROUND_S)
            pods = peek(self.cluster, "pods")
            taken = {(pod["spec"].get("nodeName"), _job(pod)) for pod in pods}
            for pod in pods:
                try:
                    self._play(pod, taken)
                except Refused as refused:
                    if refused.status != 404:
                        raise

    def _play(self, pod: Obj, taken: set[tuple[Any, str]]) -> None:
        node = pod["spec"].get("nodeName", "")
        phase = pod["status"].get("phase", "Pending")
        uid = pod["metadata"]["uid"]
        if not node:
            self._schedule(pod, taken)
        elif node in self.dead:
            away_s = self.clock.monotonic_s() - self._away_since[node]
            if away_s >= AWAY_TOLERATED_S and not pod["metadata"].get("deletionTimestamp"):
                self._delete(pod, None)
        elif pod["metadata"].get("deletionTimestamp"):
            if phase in ("Succeeded", "Failed"):
                self._delete(pod, 0)
            elif self._deleted_for_s(pod) >= GRACE_KEPT_S:
                self._status(pod, "Failed", _ended(self.exit_codes.pop(uid, 143)))
        elif uid in self.exit_codes:
            code = self.exit_codes.pop(uid)
            self._status(pod, "Failed" if code else "Succeeded", _ended(code))
        elif phase == "Pending":
            self._status(pod, "Running", {"running": {"startedAt": self._stamp()}})

    def _schedule(self, pod: Obj, taken: set[tuple[Any, str]]) -> None:
        if pod["metadata"].get("deletionTimestamp"):
            return
        avoided = _avoided(pod)
        for node in peek(self.cluster, "nodes"):
            name = node["metadata"]["name"]
            barred = self.full | self.dead | avoided
            if name in barred or node["spec"].get("unschedulable") or (name, _job(pod)) in taken:
                continue
            taken.add((name, _job(pod)))
            self.cluster.patch(
                "pods", pod["metadata"]["name"], {"spec": {"nodeName": name}}, namespace=pod["metadata"]["namespace"]
            )
            return
        refused = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0 nodes are available",
        }
        if not pod["status"].get("conditions"):
            self._patch(pod, {"phase": "Pending", "conditions": [refused]})

    def _status(self, pod: Obj, phase: str, state: dict[str, Any]) -> None:
        name = pod["spec"]["containers"][0]["name"]
        self._patch(pod, {"phase": phase, "containerStatuses": [{"name": name, "state": state}]})

    def _patch(self, pod: Obj, status: dict[str, Any]) -> None:
        meta = pod["metadata"]
        self.cluster.patch("pods", meta["name"], {"status": status}, namespace=meta["namespace"], subresource="status")

    def _delete(self, pod: Obj, grace_s: int | None) -> None:
        self.cluster.delete("pods", pod["metadata"]["name"], namespace=pod["metadata"]["namespace"], grace_s=grace_s)

    def _deleted_for_s(self, pod: Obj) -> float:
        at = read_time(pod["metadata"]["deletionTimestamp"])
        assert at is not None
        return (self.clock.now() - at) / timedelta(seconds=1)

    def _stamp(self) -> str:
        return api_time(self.clock.now())


async def until(what: Any, *, limit_s: float, clock: Clock) -> None:
    """Wait for a condition of the world."""
    end_s = clock.monotonic_s() + limit_s
    while not what():
        assert clock.monotonic_s() < end_s, f"not within {limit_s} s"
        await asyncio.sleep(0.25)


def _job(pod: Obj) -> str:
    return str(pod["metadata"].get("labels", {}).get(LABEL_UID, pod["metadata"]["uid"]))


def _avoided(pod: Obj) -> set[str]:
    on = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    terms = on.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    return {field["values"][0] for term in terms for field in term.get("matchFields", [])}


def _ended(code: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "message": f"left with {code}"}}
