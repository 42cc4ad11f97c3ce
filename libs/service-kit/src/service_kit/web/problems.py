"""Errors of an HTTP API as problem JSON (RFC 9457): what is wrong, and what to do."""

from __future__ import annotations

import json
from http import HTTPStatus

PROBLEM_JSON = "application/problem+json"


def problem(status: int, detail: str, *, instance: str = "") -> bytes:
    """The body of an error."""
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    if instance:
        body["instance"] = instance
    return json.dumps(body).encode() + b"\n"


def raw_response(status: int, detail: str) -> bytes:
    """A whole HTTP answer, for a connection that is closed before it is read."""
    body = problem(status, detail)
    head = (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {PROBLEM_JSON}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
