"""/livez, /readyz and /metrics on a small server of our own: a web framework would cost each process 25 MB.

Everything is bounded: header bytes, time, connections. One request per connection, GET and HEAD only.

Whoever reaches the port from another machine learns whether the service lives and is ready, and no more: a kubelet has
no token. What is wrong, and the metrics (names of nodes and jobs), are for loopback and for who has the token.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Callable
from http import HTTPStatus

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from service_kit.logging import get_logger
from service_kit.secret_texts import without_secrets
from service_kit.web.token import BearerToken

HEADER_BYTES_MAX = 8_192
REQUEST_LIMIT_S = 5.0
CONNECTIONS_MAX = 32
"""Probes and a scraper or two; more is somebody playing, and gets 503."""

Check = Callable[[], str | None]
"""None when well, else what is wrong, in words."""

_CHALLENGE = "WWW-Authenticate: Bearer\r\n"
_WANTS_TOKEN = b"send the token of PHALANX_HTTP_TOKEN_FILE: `Authorization: Bearer TOKEN`\n"
_NO_TOKEN = b"from another machine only with a token: set PHALANX_HTTP_TOKEN_FILE, or PHALANX_HTTP_METRICS_OPEN=true\n"

log = get_logger(__name__)


class HttpStatus:
    """Serves what the checks say."""

    def __init__(self, *, service: str, token: BearerToken | None = None, metrics_open: bool = False) -> None:
        """Without a token, `metrics_open` shows everything to whoever reaches the port."""
        self._service = service
        self._token = token
        self._all_to_all = metrics_open and token is None
        self._checks: dict[str, Check] = {}
        self._server: asyncio.Server | None = None
        self._open = 0
        self.port = 0

    def add_check(self, name: str, check: Check) -> None:
        """Take part in /readyz under this name. Must be quick and must not wait."""
        self._checks[name] = check

    def problems(self) -> dict[str, str | None]:
        """What each check says now; a check that fails is a problem of its own."""
        found: dict[str, str | None] = {}
        for name, check in self._checks.items():
            try:
                found[name] = _without_secrets(check())
            except Exception as error:
                log.exception("readiness_check_failed", check=name)
                found[name] = f"the check failed: {type(error).__name__}"
        return found

    async def start(self, host: str, port: int) -> int:
        """Listen; returns the port.

        Raises:
            OSError: the address is taken or not ours.
        """
        self._server = await asyncio.start_server(self._serve, host, port, limit=HEADER_BYTES_MAX)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self.port

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            async with asyncio.timeout(REQUEST_LIMIT_S):
                if self._open > 4 * CONNECTIONS_MAX:
                    return
                too_many = self._open > CONNECTIONS_MAX
                answer = await self._respond(
                    reader, writer
                )  # read in any case: closing on unread bytes resets the connection
                if too_many:
                    answer = _response(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", b"too many connections\n")
                writer.write(answer)
                await writer.drain()
        except (TimeoutError, ConnectionError):
            log.debug("status_request_abandoned")
        finally:
            self._open -= 1
            writer.close()

    async def _respond(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return _response(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "text/plain", b"headers too large\n")
        except asyncio.IncompleteReadError:
            return _response(HTTPStatus.BAD_REQUEST, "text/plain", b"not an HTTP request\n")
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return _response(HTTPStatus.BAD_REQUEST, "text/plain", b"not an HTTP request\n")
        method, target = words[0], words[1].split(b"?", 1)[0]
        if method not in (b"GET", b"HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, "text/plain", b"GET or HEAD\n")
        trusted = self._all_to_all or _is_loopback(writer) or self._has_token(head)
        status, kind, body = self._page(target) if trusted else self._page_for_strangers(target)
        return _response(status, kind, body, with_body=method == b"GET")

    def _has_token(self, head: bytes) -> bool:
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"authorization":
                return self._token is not None and self._token.admits(value.strip())
        return False

    def _page_for_strangers(self, target: bytes) -> tuple[HTTPStatus, str, bytes]:
        if target == b"/metrics":
            return HTTPStatus.UNAUTHORIZED, "text/plain", _NO_TOKEN if self._token is None else _WANTS_TOKEN
        status, kind, body = self._page(target)
        if target == b"/readyz":
            return status, "text/plain", b"ready\n" if status is HTTPStatus.OK else b"not ready\n"
        return status, kind, body

    def _page(self, target: bytes) -> tuple[HTTPStatus, str, bytes]:
        if target == b"/livez":
            # The loop that runs this line is alive; there is nothing else to be alive.
            return HTTPStatus.OK, "text/plain", b"ok\n"
        if target == b"/readyz":
            problems = self.problems()
            ready = not any(problems.values())
            shown = {name: problem or "ok" for name, problem in problems.items()}
            body = json.dumps({"service": self._service, "ready": ready, "checks": shown}, indent=2).encode() + b"\n"
            return (HTTPStatus.OK if ready else HTTPStatus.SERVICE_UNAVAILABLE), "application/json", body
        if target == b"/metrics":
            return HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest()
        return HTTPStatus.NOT_FOUND, "text/plain", b"/livez /readyz /metrics\n"


def _without_secrets(problem: str | None) -> str | None:
    return None if problem is None else without_secrets(problem)


def _is_loopback(writer: asyncio.StreamWriter) -> bool:
    peer = writer.get_extra_info("peername")
    try:
        address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
    except (TypeError, IndexError, ValueError):
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _response(status: HTTPStatus, kind: str, body: bytes, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
        f"Cache-Control: no-store\r\n{_CHALLENGE if status is HTTPStatus.UNAUTHORIZED else ''}Connection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
