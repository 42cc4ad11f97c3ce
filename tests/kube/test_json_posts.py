"""What the operator posts: taken, not now, or refused; a redirect is not followed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from recovery_planner.adapters.json_posts import HttpReplacementHook, HttpSignalDoor
from service_kit.errors import PermanentError, TransientError

pytestmark = pytest.mark.asyncio


@asynccontextmanager
async def answering(status: str, heard: list[bytes]) -> AsyncIterator[str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(f"HTTP/1.1 {status}\r\nLocation: /x\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


async def test_conditions_go_to_the_door_with_the_token() -> None:
    heard: list[bytes] = []
    async with answering("200 OK", heard) as url:
        door = HttpSignalDoor(url, "secret")
        await door.tell({"nodeName": "n"})
        await door.close()
    assert heard[0].startswith(b"POST /v1/signals/node-problem-detector ")
    assert b"Authorization: Bearer secret" in heard[0]


@pytest.mark.parametrize(
    ("status", "error"),
    [("503 X", TransientError), ("429 X", TransientError), ("401 X", PermanentError), ("302 X", PermanentError)],
)
async def test_what_is_not_taken_is_said(status: str, error: type[Exception]) -> None:
    heard: list[bytes] = []
    async with answering(status, heard) as url:
        hook = HttpReplacementHook(url)
        with pytest.raises(error, match=status[:3]):
            await hook.replace({"node": "n"})
        await hook.close()
    assert len(heard) == 1
    assert b"Authorization" not in heard[0]


async def test_nobody_there() -> None:
    hook = HttpReplacementHook("http://127.0.0.1:9")
    with pytest.raises(TransientError):
        await hook.replace({})
    await hook.close()
