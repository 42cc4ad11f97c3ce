"""One pod on each seat: which are missing, which have to go, which are counted as failed.

A pod is replaced by deleting it and, once it is gone, creating one of the same name. Nothing else creates pods.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from recovery_planner.domain.kube_effects import AdoptPod, CreatePod, DeletePod, KubeEffect, Reason, TellEvent
from recovery_planner.domain.kube_job_end import is_only_its_own
from recovery_planner.domain.kube_job_seen import Seen
from recovery_planner.domain.kube_job_spec import JobWish
from recovery_planner.domain.kube_job_status import JobMemory
from recovery_planner.domain.kube_launcher import PodEnd
from recovery_planner.domain.kube_pods import PodView

LOOK_AT_NODE_EVERY_S = 5.0
"""While a pod is overdue, or the planner has given its node up."""


def nodes_in_doubt(seen: Seen, now: datetime) -> frozenset[str]:
    """Nodes that somebody should look at before deciding."""
    given_up = seen.gang.lost if seen.gang is not None else frozenset()
    return frozenset(
        pod.node
        for pod in seen.pods
        if pod.node and (pod.node in given_up or (pod.gone_by is not None and pod.gone_by <= now))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Seats:
    """What has to be done, and what has to be remembered before it is done."""

    memory: JobMemory
    events: tuple[TellEvent, ...]
    deletes: tuple[DeletePod, ...]
    adopts: tuple[AdoptPod, ...]
    creates: tuple[CreatePod, ...]
    look_at: datetime | None
    last_failure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Removal:
    pod: PodView
    reason: Reason
    why: str
    grace_s: int | None = None


def seats_of(wish: JobWish, memory: JobMemory, seen: Seen, now: datetime) -> Seats:
    """Look at every seat."""
    removals = [found for pod in seen.pods if (found := _removal(wish, seen, pod, now)) is not None]
    failed = [each for each in removals if each.reason is Reason.POD_FAILED and each.pod.uid not in memory.counted]
    if failed:
        count = memory.pod_failures + len(failed)
        wait_s = min(wish.backoff_first_s * 2 ** min(count - 1, 20), wish.backoff_max_s)
        memory = memory.with_failures(tuple(each.pod.uid for each in failed), now + timedelta(seconds=wait_s))
    condemned = [each.pod.node for each in removals if each.reason is Reason.NODE_CONDEMNED]
    memory = memory.avoiding(condemned, now)
    waits = memory.retry_at is not None and now < memory.retry_at
    missing = [index for index in range(wish.pods) if seen.pod_at(index) is None]
    return Seats(
        memory=memory,
        events=(*(_event(each) for each in removals), *(_adopted(pod) for pod in seen.pods if not pod.owner_uid)),
        deletes=tuple(DeletePod(name=r.pod.name, uid=r.pod.uid, grace_s=r.grace_s) for r in removals),
        adopts=tuple(AdoptPod(name=pod.name, uid=pod.uid) for pod in seen.pods if not pod.owner_uid),
        creates=()
        if waits
        else tuple(CreatePod(index=index, avoid_nodes=tuple(sorted(memory.avoided))) for index in missing),
        look_at=_next_look(memory, seen, now),
        last_failure=failed[-1].why if failed else "",
    )


def all_pods_away(wish: JobWish, seen: Seen, now: datetime) -> tuple[KubeEffect, ...]:
    """Delete every pod that nobody has deleted yet, and without waiting those whose node is gone."""
    return tuple(
        DeletePod(name=pod.name, uid=pod.uid, grace_s=0 if lost else None)
        for pod in seen.pods
        if (lost := bool(_is_lost(wish, seen, pod, now))) or not pod.deleting
    )


def _removal(wish: JobWish, seen: Seen, pod: PodView, now: datetime) -> _Removal | None:
    """Why this pod has to go; None: it stays, or goes already."""
    away = _is_lost(wish, seen, pod, now)
    if away:
        return _Removal(pod=pod, reason=Reason.NODE_LOST, why=f"its node {pod.node} is lost: {away}", grace_s=0)
    if pod.deleting:
        return None
    if pod.end is PodEnd.DISRUPTED:
        word = pod.disruption or f"exit code {pod.exit_code}"
        return _Removal(pod=pod, reason=Reason.POD_DISRUPTED, why=f"was taken by the cluster: {word}")
    if pod.end is PodEnd.FAILED or is_only_its_own(pod, seen.gang):
        code = "without an exit code" if pod.exit_code is None else f"with exit code {pod.exit_code}"
        said = f": {pod.message}" if pod.message else ""
        return _Removal(pod=pod, reason=Reason.POD_FAILED, why=f"ended {code}{said}")
    gang = seen.gang
    if gang is not None and pod.running and pod.node in gang.condemned and gang.phase not in ("stopping", "deciding"):
        # While ranks are being stopped its launcher is still needed: it answers for them.
        return _Removal(pod=pod, reason=Reason.NODE_CONDEMNED, why=f"the planner blames the hardware of {pod.node}")
    return None


def _is_lost(wish: JobWish, seen: Seen, pod: PodView, now: datetime) -> str:
    """Why the pod's node will not end it any more; empty: it may.

    A pod that is removed without its kubelet's word may still run. So either the node does not exist, or its operator
    says that it is out of service, or the planner has given its agent up (its commands are fenced) and the node too has
    said nothing for a while.
    """
    node = seen.nodes.get(pod.node)
    if node is None or (pod.ended and not pod.deleting):
        return ""
    if not node.exists:
        return "there is no such node any more"
    if node.out_of_service and pod.deleting:
        return "it is out of service"
    gang = seen.gang
    given_up = gang is not None and (pod.node in gang.lost or (pod.deleting and bool(gang.outcome)))
    if given_up and node.is_away(now, wish.unreachable_s):
        return f"not ready for {wish.unreachable_s:.0f} s, and the planner has given it up"
    return ""


def _event(removal: _Removal) -> TellEvent:
    return TellEvent(
        reason=removal.reason,
        warning=removal.reason is not Reason.POD_DISRUPTED,
        message=f"{removal.pod.name} is replaced: {removal.why}",
        cause=f"{removal.reason}/{removal.pod.uid}",
    )


def _adopted(pod: PodView) -> TellEvent:
    return TellEvent(
        reason=Reason.POD_ADOPTED,
        warning=False,
        message=f"{pod.name} carries this job's labels and belonged to nobody",
        cause=f"adopted/{pod.uid}",
    )


def _next_look(memory: JobMemory, seen: Seen, now: datetime) -> datetime | None:
    """When something here becomes due without anybody telling."""
    due = []
    if memory.retry_at is not None and memory.retry_at > now:
        due.append(memory.retry_at)
    given_up = seen.gang.lost if seen.gang is not None else frozenset()
    for pod in seen.pods:
        if pod.gone_by is not None:
            due.append(max(pod.gone_by, now) + timedelta(seconds=LOOK_AT_NODE_EVERY_S))
        elif pod.node in given_up:
            due.append(now + timedelta(seconds=LOOK_AT_NODE_EVERY_S))
    return min(due, default=None)
