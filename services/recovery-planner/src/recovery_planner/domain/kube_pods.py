"""Pods and nodes as the API server shows them, read into what the operator decides by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from recovery_planner.domain.kube_launcher import PodEnd, end_of

LABEL_JOB = "phalanx.dev/job"
LABEL_UID = "phalanx.dev/job-uid"
LABEL_INDEX = "phalanx.dev/index"
MESSAGE_LENGTH_MAX = 500

_DISRUPTED_REASONS = {"Evicted", "NodeLost", "NodeShutdown", "Preempting", "Shutdown", "Terminated", "NodeAffinity"}
"""status.reason of pods that a kubelet or controller ended: eviction, node shut-down, pre-emption for critical pods."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """One pod.

    Attributes:
        index: place in the job; -1 when its label is none.
        owner_uid: of its controller; empty: it has none.
        node: where it was bound; empty: nowhere yet.
        gone_by: when it must have ended, where it is being deleted.
        running: its launcher runs.
        end: what the end of its launcher says.
        disruption: why the cluster took it, in its own word.
        message: the launcher's last words, or why it is not scheduled.
    """

    name: str
    uid: str
    index: int
    owner_uid: str
    node: str
    gone_by: datetime | None
    running: bool
    end: PodEnd
    exit_code: int | None = None
    disruption: str = ""
    message: str = ""

    @property
    def deleting(self) -> bool:
        """Somebody has deleted it; it has its grace."""
        return self.gone_by is not None

    @property
    def ended(self) -> bool:
        """Its launcher will not run again."""
        return self.end is not PodEnd.NOT_YET


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """One node. `ready` None: nobody says. `away_since`: not ready from then on."""

    name: str
    exists: bool
    ready: bool | None = None
    away_since: datetime | None = None
    out_of_service: bool = False

    def is_away(self, now: datetime, for_s: float) -> bool:
        """It has said nothing for so long."""
        return self.away_since is not None and (now - self.away_since).total_seconds() >= for_s


@dataclass(frozen=True, slots=True, kw_only=True)
class GangView:
    """What the planner's record says of the job.

    Attributes:
        phase: forming, starting, running, stopping, deciding, waiting, ended.
        lost, condemned: nodes that the planner has given up, or whose hardware it blames.
        outcome: how the job ended; empty: it has not.
        fault: the newest verdict in one sentence; empty: none.
    """

    phase: str
    topology_version: int
    nnodes: int
    restarts: int
    incident: str = ""
    lost: frozenset[str] = frozenset()
    condemned: frozenset[str] = frozenset()
    outcome: str = ""
    ended_reason: str = ""
    ended_at: datetime | None = None
    fault: str = ""
    step: int | None = None


def read_pod(body: Mapping[str, Any], container: str) -> PodView:
    """One pod; `container` runs the launcher."""
    meta, spec, status = _map(body.get("metadata")), _map(body.get("spec")), _map(body.get("status"))
    labels = _map(meta.get("labels"))
    state = _launcher_state(status, container)
    disruption = _disruption(status)
    ended = _map(state.get("terminated"))
    exit_code = int(ended["exitCode"]) if "exitCode" in ended else None
    return PodView(
        name=str(meta.get("name", "")),
        uid=str(meta.get("uid", "")),
        index=_index(labels.get(LABEL_INDEX)),
        owner_uid=next((str(o.get("uid", "")) for o in meta.get("ownerReferences") or () if o.get("controller")), ""),
        node=str(spec.get("nodeName") or ""),
        gone_by=read_time(meta.get("deletionTimestamp")),
        running="running" in state,
        end=_end(str(status.get("phase", "Pending")), exit_code, disruption),
        exit_code=exit_code,
        disruption=disruption,
        message=_message(status, state, ended),
    )


def read_node(name: str, body: Mapping[str, Any] | None) -> NodeView:
    """One node; None: there is no such node."""
    if body is None:
        return NodeView(name=name, exists=False)
    conditions = _map(body.get("status")).get("conditions") or ()
    ready = next((each for each in conditions if each.get("type") == "Ready"), None)
    taints = _map(body.get("spec")).get("taints") or ()
    away = ready is not None and ready.get("status") != "True"
    return NodeView(
        name=name,
        exists=True,
        ready=None if ready is None else ready.get("status") == "True",
        away_since=read_time(ready.get("lastTransitionTime")) if away and ready is not None else None,
        out_of_service=any(each.get("key") == "node.kubernetes.io/out-of-service" for each in taints),
    )


def read_time(text: Any) -> datetime | None:
    """An RFC 3339 time of the API; None when there is none."""
    if isinstance(text, datetime):
        return text
    if not isinstance(text, str) or not text:
        return None
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _launcher_state(status: Mapping[str, Any], container: str) -> Mapping[str, Any]:
    for each in status.get("containerStatuses") or ():
        if each.get("name") == container:
            return _map(each.get("state"))
    return {}


def _disruption(status: Mapping[str, Any]) -> str:
    for each in status.get("conditions") or ():
        if each.get("type") == "DisruptionTarget" and each.get("status") == "True":
            return str(each.get("reason") or "DisruptionTarget")
    reason = str(status.get("reason") or "")
    return reason if reason in _DISRUPTED_REASONS else ""


def _end(phase: str, exit_code: int | None, disruption: str) -> PodEnd:
    if exit_code is not None:
        end = end_of(exit_code)
        # Killed because its grace was over, or because the kubelet makes room: that is the cluster's doing as well.
        return PodEnd.DISRUPTED if disruption and end is PodEnd.FAILED else end
    if phase == "Failed":
        return PodEnd.DISRUPTED if disruption else PodEnd.FAILED
    return PodEnd.SUCCEEDED if phase == "Succeeded" else PodEnd.NOT_YET


def _message(status: Mapping[str, Any], state: Mapping[str, Any], ended: Mapping[str, Any]) -> str:
    if ended:
        text = str(ended.get("message") or ended.get("reason") or "")
    elif state.get("waiting"):
        waiting = _map(state.get("waiting"))
        text = f"{waiting.get('reason', '')}: {waiting.get('message', '')}".strip(": ")
    else:
        conditions = status.get("conditions") or ()
        refused = next((c for c in conditions if c.get("type") == "PodScheduled" and c.get("status") == "False"), None)
        text = (
            str(refused.get("message") or refused.get("reason") or "") if refused else str(status.get("message") or "")
        )
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return " / ".join(lines[-3:])[-MESSAGE_LENGTH_MAX:]


def _index(text: Any) -> int:
    return int(text) if isinstance(text, str) and text.isdecimal() else -1


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
