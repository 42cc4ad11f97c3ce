"""A node as Kubernetes has it, read from its JSON; and the names that we write into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

DOMAIN = "phalanx.dev"
UNHEALTHY = f"{DOMAIN}/unhealthy"
"""Taint of a node that gets no ranks."""
NOT_VALIDATED = f"{DOMAIN}/not-validated"
"""Startup taint, put there by whoever makes the node; taken away by us once the gate was passed."""
CORDONED = f"{DOMAIN}/cordoned"
"""Annotation of a node that we cordoned; without it we never un-cordon."""
DRAIN_BEGAN = f"{DOMAIN}/drain-began"
"""Annotation: since when we evict, so that the limit outlives the operator."""
REPLACEMENT_ASKED = f"{DOMAIN}/replacement-asked"
"""Annotation: for which machine and story its replacement was asked for."""
CONDITION_PREFIX = "Phalanx"


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """One taint; key and effect identify it."""

    key: str
    effect: str = "NoSchedule"
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition; `since` is its last transition."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: str = ""

    @property
    def said(self) -> tuple[str, str, str]:
        """What counts as a change."""
        return self.status, self.reason, self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSeen:
    """What of a node counts here.

    Attributes:
        ours: our conditions, by type.
        others: all other conditions.
        raw_taints: as the server has them: the list is atomic, so it is written back whole.
    """

    name: str
    uid: str
    version: str
    created_at: datetime | None = None
    ours: Mapping[str, Condition]
    others: tuple[Condition, ...] = ()
    taints: tuple[Taint, ...] = ()
    raw_taints: tuple[Mapping[str, Any], ...] = ()
    unschedulable: bool = False
    cordoned_for: str | None = None
    drain_began: str = ""
    provider_id: str = ""
    replacement_asked: str = ""

    def has_taint(self, key: str) -> bool:
        """Whatever its effect."""
        return any(taint.key == key for taint in self.taints)


def read_node(node: Mapping[str, Any]) -> NodeSeen:
    """From the server's JSON; what is missing is empty."""
    metadata, spec = node.get("metadata", {}), node.get("spec", {})
    annotations = metadata.get("annotations") or {}
    conditions = tuple(_condition(raw) for raw in node.get("status", {}).get("conditions") or ())
    raw_taints = tuple(spec.get("taints") or ())
    return NodeSeen(
        name=str(metadata.get("name", "")),
        uid=str(metadata.get("uid", "")),
        version=str(metadata.get("resourceVersion", "")),
        created_at=read_time(str(metadata.get("creationTimestamp") or "")),
        ours={each.type: each for each in conditions if each.type.startswith(CONDITION_PREFIX)},
        others=tuple(each for each in conditions if not each.type.startswith(CONDITION_PREFIX)),
        taints=tuple(
            Taint(key=str(raw.get("key")), effect=str(raw.get("effect")), value=str(raw.get("value") or ""))
            for raw in raw_taints
        ),
        raw_taints=raw_taints,
        unschedulable=bool(spec.get("unschedulable", False)),
        cordoned_for=annotations.get(CORDONED),
        drain_began=str(annotations.get(DRAIN_BEGAN, "")),
        replacement_asked=str(annotations.get(REPLACEMENT_ASKED, "")),
        provider_id=str(spec.get("providerID", "")),
    )


def read_time(text: str) -> datetime | None:
    """RFC 3339 as the server writes it."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None


def time_text(at: datetime) -> str:
    """The same way back, to the second."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _condition(raw: Mapping[str, Any]) -> Condition:
    return Condition(
        type=str(raw.get("type", "")),
        status=str(raw.get("status", "")),
        reason=str(raw.get("reason") or ""),
        message=str(raw.get("message") or ""),
        since=str(raw.get("lastTransitionTime") or ""),
    )
