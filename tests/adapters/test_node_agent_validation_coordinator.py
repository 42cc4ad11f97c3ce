"""The coordinator against members on real sockets that are silent, die, or talk nonsense."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from node_agent.adapters import validation_coordinator
from node_agent.adapters.validation_coordinator import Coordinator
from node_agent.application.validation_ports import Answer, AnswerEnd, DeviceOrder

ORDER = DeviceOrder(matmul_size=8, duration_s=0.0, memory_bytes=8)


class Member:
    """A member's connection, in the hand of the test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def say(self, message: Any) -> None:
        self._writer.write(json.dumps(message).encode() + b"\n")

    def say_raw(self, raw: bytes) -> None:
        self._writer.write(raw)

    async def hear(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(await self._reader.readline())
        return told

    async def is_refused(self) -> bool:
        async with asyncio.timeout(30):
            return await self._reader.read() == b""

    def leave(self) -> None:
        self._writer.close()


@contextlib.asynccontextmanager
async def coordinating() -> AsyncIterator[tuple[Coordinator, int]]:
    coordinator = Coordinator("run-1")
    port = await coordinator.start("127.0.0.1", 0)
    try:
        yield coordinator, port
    finally:
        await coordinator.close()


async def joined(port: int, rank: int = 0, *, run: str = "run-1") -> Member:
    member = Member(*await asyncio.open_connection("127.0.0.1", port))
    member.say({"hello": hello(rank, run)})
    return member


def hello(rank: int, run: str = "run-1") -> dict[str, Any]:
    names = {"node_id": "n", "device": "cpu", "device_id": "", "device_name": "cpu", "store_address": "127.0.0.1"}
    return {"run": run, "rank": rank, "node_rank": 0, "store_port": 1, **names}


async def asked(coordinator: Coordinator, *, limit_s: float = 30.0) -> Answer:
    await coordinator.gather(1, limit_s=30)
    return await coordinator.ask(0, ORDER, limit_s=limit_s)


@pytest.mark.asyncio
async def test_an_answer_comes_back() -> None:
    async with coordinating() as (coordinator, port):
        member = await joined(port)
        asking = asyncio.create_task(asked(coordinator))
        order = await member.hear()
        assert (order["do"], order["matmul_size"]) == ("device", 8)
        finding = {"check": "matmul", "end": "corrupt", "sentence": "row 3", "values": {"row": 3}}
        member.say({"id": order["id"], "end": "ok", "findings": [finding]})
        answer = await asking
        assert answer.end is AnswerEnd.OK
        assert answer.findings[0].values == {"row": 3.0}


@pytest.mark.asyncio
async def test_the_end_of_a_connection_is_a_death_with_the_exit_that_its_node_tells() -> None:
    async with coordinating() as (coordinator, port):
        member = await joined(port)
        asking = asyncio.create_task(asked(coordinator))
        await member.hear()
        member.leave()
        await coordinator.tell_exit(0, "killed by SIGSEGV")
        assert await asking == Answer(end=AnswerEnd.DIED, detail="killed by SIGSEGV")
        assert (await coordinator.ask(0, ORDER, limit_s=1.0)).end is AnswerEnd.DIED


@pytest.mark.asyncio
async def test_silence_ends_with_the_deadline_and_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation_coordinator, "SLACK_S", 0.05)
    async with coordinating() as (coordinator, port):
        silent = await joined(port)
        assert (await asked(coordinator, limit_s=0.05)).end is AnswerEnd.SILENT
        assert (await coordinator.ask(0, ORDER, limit_s=600.0)).end is AnswerEnd.SILENT
        silent.leave()


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\n",
        b"[1]\n",
        b'{"id": 77, "end": "ok"}\n',
        b'{"id": 1, "end": "splendid"}\n',
        b'{"id": 1, "end": "ok", "values": {"a": "b"}}\n',
        b"x" * (validation_coordinator.LINE_MAX + 10) + b"\n",
    ],
)
async def test_nonsense_is_a_member_that_is_gone(raw: bytes) -> None:
    async with coordinating() as (coordinator, port):
        member = await joined(port)
        asking = asyncio.create_task(asked(coordinator))
        await member.hear()
        member.say_raw(raw)
        assert (await asking).end is AnswerEnd.DIED


@pytest.mark.asyncio
async def test_strangers_are_refused() -> None:
    async with coordinating() as (coordinator, port):
        assert await (await joined(port, run="another")).is_refused()
        stranger = Member(*await asyncio.open_connection("127.0.0.1", port))
        stranger.say_raw(b"GET / HTTP/1.1\r\n\r\n")
        assert await stranger.is_refused()
        first = await joined(port, 0)
        await coordinator.gather(1, limit_s=30)
        assert await (await joined(port, 0)).is_refused()
        first.leave()


@pytest.mark.asyncio
async def test_who_ended_before_it_came_is_not_waited_for() -> None:
    async with coordinating() as (coordinator, port):
        await joined(port, 0)
        await coordinator.tell_exit(1, "exit code 1")
        async with asyncio.timeout(30):
            assert set(await coordinator.gather(2, limit_s=600.0)) == {0}


@pytest.mark.asyncio
async def test_a_node_brings_its_findings_and_gets_the_report() -> None:
    async with coordinating() as (coordinator, port):
        node = Member(*await asyncio.open_connection("127.0.0.1", port))
        node.say({"hello": {"run": "run-1", "node_rank": 1}})
        node.say({"exited": {"rank": 5, "how": "killed by SIGKILL"}})
        node.say({"findings": [{"check": "ledger"}]})
        assert await coordinator.findings_of(1, limit_s=30) == [{"check": "ledger"}]
        await coordinator.send_report({"verdict": "pass"})
        assert await node.hear() == {"report": {"verdict": "pass"}}


@pytest.mark.asyncio
async def test_a_node_that_leaves_without_a_word_told_nothing() -> None:
    async with coordinating() as (coordinator, port):
        node = Member(*await asyncio.open_connection("127.0.0.1", port))
        node.say({"hello": {"run": "run-1", "node_rank": 1}})
        node.leave()
        assert await coordinator.findings_of(1, limit_s=30) is None
