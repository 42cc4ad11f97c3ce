"""What the fake API server says when it says no, in the words of the real one."""

from __future__ import annotations

from typing import Any


class Refused(Exception):
    """An answer with an error; `body` is the Status object."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        causes: tuple[tuple[str, str, str], ...] = (),
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s
        details: dict[str, Any] = {}
        if causes:
            details["causes"] = [
                {k: v for k, v in (("reason", why), ("field", field), ("message", said)) if v}
                for why, field, said in causes
            ]
        if retry_after_s is not None:
            details["retryAfterSeconds"] = retry_after_s
        self.body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": details,
            "code": status,
        }


class ConnectionCut(Exception):
    """There is no answer: the connection was reset. The work may be done all the same."""


def not_found(what: str, name: str) -> Refused:
    return Refused(404, "NotFound", f'{what} "{name}" not found')


def no_such_kind() -> Refused:
    return Refused(404, "NotFound", "the server could not find the requested resource")


def conflict(what: str, name: str, why: str) -> Refused:
    return Refused(409, "Conflict", f'Operation cannot be fulfilled on {what} "{name}": {why}')


STALE = "the object has been modified; please apply your changes to the latest version and try again"


def exists(what: str, name: str) -> Refused:
    return Refused(409, "AlreadyExists", f'{what} "{name}" already exists')


def invalid(kind: str, name: str, causes: list[tuple[str, str]]) -> Refused:
    said = "; ".join(f"{field}: {why}" for field, why in causes)
    return Refused(
        422,
        "Invalid",
        f'{kind} "{name}" is invalid: {said}',
        causes=tuple(("FieldValueInvalid", field, why) for field, why in causes),
    )


def forbidden(what: str, name: str, why: str, *, causes: tuple[tuple[str, str, str], ...] = ()) -> Refused:
    return Refused(403, "Forbidden", f'{what} "{name}" is forbidden: {why}', causes=causes)


def expired(version: int, floor: int) -> Refused:
    return Refused(410, "Expired", f"too old resource version: {version} ({floor})")


def throttled(retry_after_s: int) -> Refused:
    return Refused(429, "TooManyRequests", "the server is too busy", retry_after_s=retry_after_s)


def budget(pod: str, name: str) -> Refused:
    return Refused(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        causes=(("DisruptionBudget", "", f"The disruption budget {name} needs {pod}"),),
    )
