"""The three pages, and callers that misbehave."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from service_kit import http_status
from service_kit.http_status import HttpStatus

pytestmark = pytest.mark.asyncio


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
