"""Which pods of a node are evicted when it is drained; the rules are those of `kubectl drain`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a static pod: the kubelet made it, and would make it again."""
SHOWN_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """One pod that is to leave."""

    namespace: str
    name: str
    uid: str


def pods_to_evict(pods: Iterable[Mapping[str, Any]]) -> tuple[Leaving, ...]:
    """Not what is leaving or over, not what belongs to the machine (DaemonSets, static pods)."""
    return tuple(
        Leaving(namespace=metadata["namespace"], name=metadata["name"], uid=metadata.get("uid", ""))
        for pod in pods
        if _is_to_leave(pod, metadata := pod["metadata"])
    )


def _is_to_leave(pod: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    if metadata.get("deletionTimestamp") or MIRROR in (metadata.get("annotations") or {}):
        return False
    if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return False
    owners = metadata.get("ownerReferences") or ()
    return not any(owner.get("controller") and owner.get("kind") == "DaemonSet" for owner in owners)


def stuck_words(refused: Mapping[str, str]) -> str:
    """Pods that may not be evicted and why, for a person."""
    named = [f"{pod} ({why})" for pod, why in sorted(refused.items())]
    more = f" and {len(named) - SHOWN_MAX} more" if len(named) > SHOWN_MAX else ""
    return ", ".join(named[:SHOWN_MAX]) + more
