"""What JetStream answers: acknowledgements and errors as values, and which of our errors each one is.

Codes: nats-server, server/errors.json; those with an HTTP-like code of 5xx were not accepted and may be tried again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from nats.aio.msg import Msg

from service_kit.errors import BusUnavailable, ServiceError
from service_kit.errors import PermanentError as _PermanentError

WRONG_LAST_SEQUENCE = frozenset({10071, 10164})
"""Compare-and-set refused: 10071 names the sequence that is there, 10164 does not."""
LAST_SEQUENCE_IN_FLIGHT = 10163
"""A clustered stream is just writing on that subject: try again."""
STREAM_NOT_FOUND = 10059
CONSUMER_NOT_FOUND = 10014
STREAM_NAME_IN_USE = 10058
STORE_FAILED = 10077
"""Limits with discard new, or the server's disk is full."""
NO_SPACE = 10047


class ServerRefusal(ServiceError):
    """An error answer of JetStream, with its codes."""

    def __init__(self, what: str, *, code: int, err_code: int, description: str) -> None:
        super().__init__(f"{what}: {description} (JetStream {err_code})")
        self.code = code
        self.err_code = err_code
        self.description = description

    @property
    def may_be_repeated(self) -> bool:
        """Whether the server could accept the same message later."""
        return self.code >= 500 or self.err_code == LAST_SEQUENCE_IN_FLIGHT

    def as_failure(self) -> ServiceError:
        """The same as TransientError or PermanentError."""
        return BusUnavailable(str(self)) if self.may_be_repeated else _PermanentError(str(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishAck:
    """The stream has the message."""

    stream: str
    sequence: int
    duplicate: bool


def status_of(msg: Msg) -> str | None:
    """The status header of a control answer (503, 404, 408, ...), None for a message."""
    headers = msg.headers
    return headers.get("Status") if headers else None


def read_json(msg: Msg, what: str) -> dict[str, Any]:
    """The body of an API answer.

    Raises:
        ServerRefusal: the answer is an error, or not JSON.
    """
    try:
        body = json.loads(msg.data)
    except ValueError as error:
        raise ServerRefusal(what, code=500, err_code=0, description=f"unreadable answer {msg.data[:80]!r}") from error
    refusal = body.get("error")
    if refusal:
        raise ServerRefusal(
            what,
            code=int(refusal.get("code", 500)),
            err_code=int(refusal.get("err_code", 0)),
            description=str(refusal.get("description", "")),
        )
    assert isinstance(body, dict), "JetStream answers with objects"
    return body


def read_ack(msg: Msg, what: str) -> PublishAck:
    """The acknowledgement of a publish.

    Raises:
        ServerRefusal: refused.
    """
    body = read_json(msg, what)
    return PublishAck(stream=body["stream"], sequence=int(body["seq"]), duplicate=bool(body.get("duplicate")))
