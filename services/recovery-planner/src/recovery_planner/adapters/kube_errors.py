"""From an answer of the API server to an error of the port."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recovery_planner.application.kube_ports import (
    KubeAlreadyExists,
    KubeConflict,
    KubeError,
    KubeForbidden,
    KubeGone,
    KubeInvalid,
    KubeNotFound,
    KubeRefused,
    KubeTooManyRequests,
    KubeUnavailable,
)

MESSAGE_MAX = 1_000
CAUSES_MAX = 32
RETRY_AFTER_MAX_S = 600.0
"""A server that asks for more is asked again all the same."""


def kube_error(status: int, body: Mapping[str, Any], *, retry_after_s: float | None = None) -> KubeError:
    """The error for an HTTP status and a Status object (empty when the body was something else)."""
    reason = str(body.get("reason", ""))
    details = body.get("details") or {}
    message = str(body.get("message") or f"the API server answered {status}")[:MESSAGE_MAX]
    causes = tuple(_cause(cause) for cause in (details.get("causes") or ())[:CAUSES_MAX])
    wait_s = retry_after_s if retry_after_s is not None else _seconds(details.get("retryAfterSeconds"))
    if status == 429:
        return KubeTooManyRequests(message, status=status, reason=reason, causes=causes, retry_after_s=wait_s)
    if status >= 500 or status in (0, 408):
        return KubeUnavailable(message, status=status, reason=reason, causes=causes, retry_after_s=wait_s)
    return _refusal(status, reason)(message, status=status, reason=reason, causes=causes)


def _refusal(status: int, reason: str) -> type[KubeError]:
    match status:
        case 409:
            return KubeAlreadyExists if reason == "AlreadyExists" else KubeConflict
        case 404:
            return KubeNotFound
        case 410:
            return KubeGone
        case 401 | 403:
            return KubeForbidden
        case 422:
            return KubeInvalid
        case 400 if reason in ("BadRequest", "Invalid"):
            return KubeInvalid
        case _:
            return KubeRefused


def _cause(cause: Mapping[str, Any]) -> tuple[str, str]:
    """Field, or the sort of cause where it is about none; and the message."""
    sort, field = str(cause.get("reason", "")), str(cause.get("field", ""))
    named = sort if sort in ("DisruptionBudget", "NamespaceTerminating") else field or sort
    return named, str(cause.get("message", ""))[:MESSAGE_MAX]


def _seconds(value: object) -> float | None:
    if not isinstance(value, int | float) or not value > 0:
        return None
    return min(float(value), RETRY_AFTER_MAX_S)


def retry_after(header: str | None) -> float | None:
    """The header's seconds; a date, which servers of Kubernetes do not send, says nothing."""
    try:
        return _seconds(float(header or ""))
    except ValueError:
        return None
