"""The body of an event, as `kubectl describe` shows it."""

from __future__ import annotations

from typing import Any

from recovery_planner.application.kube_ports import FIELD_MANAGER, KubeEvent

MESSAGE_MAX = 1_024
"""The server's limit for a note."""
DEFAULT_NAMESPACE = "default"
"""Where events about objects without a namespace live."""


def event_body(event: KubeEvent) -> dict[str, Any]:
    """core/v1 Event."""
    metadata = event.about.get("metadata", {})
    namespace = metadata.get("namespace") or DEFAULT_NAMESPACE
    about = {
        "apiVersion": event.about.get("apiVersion", "v1"),
        "kind": event.about.get("kind", ""),
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "uid": metadata.get("uid", ""),
        "resourceVersion": metadata.get("resourceVersion", ""),
    }
    body = {
        "metadata": {"name": event.name, "namespace": namespace},
        "involvedObject": {name: value for name, value in about.items() if value},
        "reason": event.reason,
        "message": event.message[:MESSAGE_MAX],
        "type": "Warning" if event.warning else "Normal",
        "source": {"component": FIELD_MANAGER},
        "reportingComponent": f"phalanx.dev/{FIELD_MANAGER}",
        "reportingInstance": FIELD_MANAGER,
        "action": event.reason,
        "count": 1,
    }
    return body | ({"firstTimestamp": event.at, "lastTimestamp": event.at} if event.at else {})
