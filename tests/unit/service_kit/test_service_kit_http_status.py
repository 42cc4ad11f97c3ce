"""The three pages, and callers that misbehave."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from service_kit import http_status, metrics
from service_kit.http_status import HttpStatus
from service_kit.web.token import usable_token

pytestmark = pytest.mark.asyncio
assert metrics, "imported so that there are metrics of ours"


@pytest_asyncio.fixture
async def status() -> AsyncIterator[HttpStatus]:
    serving = HttpStatus(service="a-service")
    await serving.start("127.0.0.1", 0)
    yield serving
    await serving.stop()


async def ask(status: HttpStatus, raw: bytes) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", status.port)
    writer.write(raw)
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), body


async def get(status: HttpStatus, path: str) -> tuple[int, bytes]:
    return await ask(status, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


async def test_ready_names_each_check_and_follows_it(status: HttpStatus) -> None:
    problem: str | None = "not connected"
    status.add_check("bus", lambda: problem)
    status.add_check("disk", lambda: None)
    code, body = await get(status, "/readyz")
    assert (code, json.loads(body)["checks"]) == (503, {"bus": "not connected", "disk": "ok"})
    problem = None
    code, body = await get(status, "/readyz?verbose=1")
    assert (code, json.loads(body)["ready"]) == (200, True)


async def test_a_check_that_fails_is_not_ready(status: HttpStatus) -> None:
    def broken() -> str | None:
        raise RuntimeError("oops")

    status.add_check("broken", broken)
    code, body = await get(status, "/readyz")
    assert code == 503
    assert "RuntimeError" in json.loads(body)["checks"]["broken"]


async def test_alive_and_metrics(status: HttpStatus) -> None:
    assert await get(status, "/livez") == (200, b"ok\n")
    code, body = await get(status, "/metrics")
    assert code == 200
    assert b"phalanx_bus_connected" in body


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"POST /livez HTTP/1.1\r\n\r\n", 405),
        (b"GET /secret HTTP/1.1\r\n\r\n", 404),
        (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", 404),
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00 tls hello\r\n\r\n", 400),
        (b"GET /livez HTTP/1.1\r\nX: " + b"y" * 20_000 + b"\r\n\r\n", 431),
    ],
)
async def test_everything_else_is_refused(status: HttpStatus, raw: bytes, code: int) -> None:
    assert (await ask(status, raw))[0] == code
    assert (await get(status, "/livez"))[0] == 200


async def test_a_caller_that_says_nothing_is_dropped(status: HttpStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_status, "REQUEST_LIMIT_S", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", status.port)
    assert await asyncio.wait_for(reader.read(), 2) == b""
    writer.close()


async def test_too_many_callers_are_turned_away(status: HttpStatus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_status, "CONNECTIONS_MAX", 2)
    held = [await asyncio.open_connection("127.0.0.1", status.port) for _ in range(2)]
    await asyncio.sleep(0.05)
    assert (await get(status, "/livez"))[0] == 503
    for _, writer in held:
        writer.close()
    await asyncio.sleep(0.05)
    assert (await get(status, "/livez"))[0] == 200


async def test_head_has_no_body(status: HttpStatus) -> None:
    assert await ask(status, b"HEAD /livez HTTP/1.1\r\n\r\n") == (200, b"")


TOKEN = "0123456789abcdef-token"


class Peer:
    def __init__(self, address: object) -> None:
        self.address = address

    def get_extra_info(self, name: str) -> object:
        assert name == "peername"
        return self.address


async def test_loopback_is_known_in_both_families() -> None:
    here = [("127.0.0.1", 1), ("127.9.9.9", 1), ("::1", 1, 0, 0), ("::ffff:127.0.0.1", 1, 0, 0)]
    elsewhere = [("10.0.0.1", 1), ("::ffff:10.0.0.1", 1, 0, 0), ("fe80::1%eth0", 1, 0, 2), ("", 1), None, ()]
    assert [http_status._is_loopback(Peer(each)) for each in here] == [True] * 4  # type: ignore[arg-type]
    assert [http_status._is_loopback(Peer(each)) for each in elsewhere] == [False] * 6  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("token", "is_open", "header", "code"),
    [
        (None, False, "", 401),
        (None, False, f"Authorization: Bearer {TOKEN}", 401),
        (None, True, "", 200),
        (TOKEN, False, "", 401),
        (TOKEN, True, "", 401),
        (TOKEN, False, f"Authorization: Bearer {TOKEN}x", 401),
        (TOKEN, False, f"Authorization: Basic {TOKEN}", 401),
        (TOKEN, False, f"authorization:bearer {TOKEN}", 200),
    ],
)
async def test_another_machine_needs_the_token(
    monkeypatch: pytest.MonkeyPatch, token: str | None, is_open: bool, header: str, code: int
) -> None:
    monkeypatch.setattr(http_status, "_is_loopback", lambda _writer: False)
    secret = None if token is None else usable_token(token, "test")
    serving = HttpStatus(service="a-service", token=secret, metrics_open=is_open)
    serving.add_check("bus", lambda: "nats://secret-host does not answer")
    await serving.start("127.0.0.1", 0)
    try:
        ask_with = f"HTTP/1.1\r\nHost: x\r\n{header}\r\n\r\n" if header else "HTTP/1.1\r\nHost: x\r\n\r\n"
        metrics, body = await ask(serving, f"GET /metrics {ask_with}".encode())
        assert metrics == code
        assert (b"process_max_fds" in body) == (code == 200)
        ready, detail = await ask(serving, f"GET /readyz {ask_with}".encode())
        assert ready == 503, "a kubelet has no token"
        assert (b"secret-host" in detail) == (code == 200)
        assert await ask(serving, f"GET /livez {ask_with}".encode()) == (200, b"ok\n")
    finally:
        await serving.stop()
