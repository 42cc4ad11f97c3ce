"""Stands before an API's application: who may ask (Host, token), and how often. Pure ASGI.

A port on loopback is open to every user of the machine and to every page in a browser on it. So a request by name is
taken only for loopback's own names (a page that lets its name point to 127.0.0.1 is refused), and with a token nobody
gets in without it. The Unix socket needs neither: the kernel keeps other users out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

from service_kit.web.problems import PROBLEM_JSON, problem
from service_kit.web.token import BearerToken

REQUESTS_PER_S_MAX = 50.0
BURST_MAX = 50.0
"""A page that refreshes itself and a scraper need two a second; a loop of curl must not take the agent's time."""
LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]


@dataclass(slots=True)
class RateLimit:
    """A bucket of tokens, shared by all ways in."""

    time: Callable[[], float]
    tokens: float = BURST_MAX
    at_s: float = 0.0

    def take(self) -> bool:
        """One request; False when there were too many."""
        now_s = self.time()
        self.tokens = min(BURST_MAX, self.tokens + (now_s - self.at_s) * REQUESTS_PER_S_MAX)
        self.at_s = now_s
        if self.tokens < 1.0:
            return False
        self.tokens -= 1.0
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """One way in. `token` None: whoever can connect may read; `by_name`: any Host header will do."""

    token: BearerToken | None
    by_name: bool


class Guard:
    """The application behind one door."""

    def __init__(self, app: App, door: Door, rate: RateLimit) -> None:
        self._app = app
        self._door = door
        self._rate = rate

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Let a request in, or answer it here."""
        if scope["type"] != "http":
            return
        headers: Mapping[bytes, bytes] = dict(scope["headers"])
        if not self._rate.take():
            await _refuse(send, 429, "too many requests; ask again in a second", (b"retry-after", b"1"))
        elif self._door.token is not None and not self._door.token.admits(headers.get(b"authorization", b"")):
            await _refuse(
                send,
                401,
                "this API wants its token: send the header `Authorization: Bearer TOKEN`",
                (b"www-authenticate", b"Bearer"),
            )
        elif not self._door.by_name and _name(headers.get(b"host", b"")) not in LOOPBACK_NAMES:
            await _refuse(send, 421, "without a token this port answers to localhost, 127.0.0.1 and [::1] only")
        else:
            await self._app(scope, receive, send)


def _name(host: bytes) -> str:
    text = host.decode("latin-1").lower()
    return text.partition("]")[0] + "]" if text.startswith("[") else text.partition(":")[0]


async def _refuse(send: Send, status: int, detail: str, *headers: tuple[bytes, bytes]) -> None:
    body = problem(status, detail)
    length = (b"content-length", str(len(body)).encode())
    kind = (b"content-type", PROBLEM_JSON.encode())
    await send({"type": "http.response.start", "status": status, "headers": [kind, length, *headers]})
    await send({"type": "http.response.body", "body": body})
