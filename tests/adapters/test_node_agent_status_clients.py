"""Slow, silent and broken clients of the status API: bounded, ended, and nobody else's trouble."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest
from status_rig import StatusRig, parsed, status_rig

from service_kit.web import guard

CLIENTS = 200


async def opened(s: StatusRig) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_unix_connection(s.socket)


@pytest.fixture(autouse=True)
def no_rate_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried here are the other limits."""
    monkeypatch.setattr(guard, "BURST_MAX", 1e9)
    monkeypatch.setattr(guard, "REQUESTS_PER_S_MAX", 1e9)


@pytest.mark.asyncio
async def test_silent_clients_take_no_more_than_their_share_and_are_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with status_rig(tmp_path) as s:
        assert (await s.get("/healthz")).status == 200
        from service_kit.web import protocol

        monkeypatch.setattr(protocol, "CONNECTION_S_MAX", 1.0)
        before = len(os.listdir("/proc/self/fd"))
        clients = [await opened(s) for _ in range(CLIENTS)]
        answers = await asyncio.gather(*(asyncio.wait_for(reader.read(), 30) for reader, _ in clients))
        refused = [parsed(answer) for answer in answers if answer]
        assert len(refused) == CLIENTS - protocol.CONNECTIONS_MAX
        assert {answer.status for answer in refused} == {503}
        assert "close some" in refused[0].json["detail"]
        assert sum(not answer for answer in answers) == protocol.CONNECTIONS_MAX, "the silent ones were ended"
        for _, writer in clients:
            writer.close()
        await asyncio.sleep(0)
        assert (await s.get("/healthz")).status == 200
        async with asyncio.timeout(10):
            while len(os.listdir("/proc/self/fd")) > before:  # noqa: ASYNC110  descriptors tell nobody
                await asyncio.sleep(0.01)


@pytest.mark.asyncio
async def test_trickle_and_endless_head_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with status_rig(tmp_path) as s:
        assert (await s.get("/healthz")).status == 200
        from service_kit.web import protocol

        monkeypatch.setattr(protocol, "CONNECTION_S_MAX", 1.0)
        reader, writer = await opened(s)
        ended = asyncio.create_task(reader.read())
        async with asyncio.timeout(30):
            for byte in b"GET /status HTTP/1.1\r\nX: " + b"y" * 10_000:
                writer.write(bytes([byte]))
                await asyncio.sleep(0.01)
                if ended.done():
                    break
        [outcome] = await asyncio.gather(ended, return_exceptions=True)
        assert outcome == b"" or isinstance(outcome, ConnectionError), "it got no answer, only its end"
        reader, writer = await opened(s)
        writer.write(b"GET /status HTTP/1.1\r\nX: " + b"y" * 100_000)
        assert b"400" in (await asyncio.wait_for(reader.read(), 30)).split(b"\r\n")[0]
        writer.close()


@pytest.mark.asyncio
async def test_a_client_that_never_reads_does_not_hold_the_agent(tmp_path: Path) -> None:
    async with status_rig(tmp_path) as s:
        await s.start_rank("print('x' * 240_000, flush=True)\nimport time; time.sleep(600)")
        await s.ranks.text_of(s.ranks.stdout(0), "x" * 1_000)
        _, writer = await opened(s)
        request = b"GET /logs/tail?rank=0 HTTP/1.1\r\nHost: a\r\n\r\n"
        writer.write(request * 200)  # 48 MB of answers, were they all made
        loop = asyncio.get_running_loop()
        for _ in range(20):
            before = loop.time()
            assert (await s.get("/healthz")).status == 200
            assert loop.time() - before < 5.0
        writer.transport.abort()


@pytest.mark.asyncio
async def test_noise_never_ends_the_api(tmp_path: Path) -> None:
    noise = random.Random(11)
    pieces = [b"GET /status HTTP/1.1\r\n", b"Host: a\r\n", b"\r\n", b"Content-Length: 5\r\n", b"POST / HTTP/1.1\r\n"]
    pieces += [b"Transfer-Encoding: chunked\r\n", b"ffffffff\r\n", b"\0\xff", b"GET \xff HTTP/1.1\r\n\r\n"]
    pieces += [b"Upgrade: websocket\r\nConnection: upgrade\r\n", b"Expect: 100-continue\r\n", b"PRI * HTTP/2.0\r\n\r\n"]
    broken: list[dict[str, object]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: broken.append(context))
    async with status_rig(tmp_path) as s:
        for _ in range(300):
            _, writer = await opened(s)
            writer.write(
                b"".join(noise.choices(pieces, k=noise.randrange(1, 7))) + noise.randbytes(noise.randrange(20))
            )
            if noise.random() < 0.5:
                await asyncio.sleep(0)
            writer.transport.abort()
        assert (await s.get("/healthz")).status == 200
    assert broken == []


@pytest.mark.asyncio
async def test_the_agent_leaves_although_clients_hang_on(tmp_path: Path) -> None:
    async with status_rig(tmp_path) as s:
        assert (await s.get("/healthz")).status == 200
        await s.start_rank("import time; time.sleep(600)")
        readers = [await opened(s) for _ in range(5)]
        readers[0][1].write(b"GET /stacks?rank=0 HTTP/1.1\r\nHost: a\r\n\r\n")
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await s.api.close()
            assert [await reader.read() for reader, _ in readers[1:]] == [b""] * 4
