"""One wake-up for all pipes: nothing is lost, who writes much does not wait, and the last pipe takes all along."""

import asyncio
import os
from collections.abc import Callable

import pytest

from node_agent.adapters import output_pump
from node_agent.adapters.output_pump import OutputPump

pytestmark = pytest.mark.asyncio


class Pipe:
    """A pipe on a pump, with what came out of it."""

    def __init__(self, pump: OutputPump, *, at_once: int = 1 << 16) -> None:
        self.pump = pump
        self.read_fd, self.write_fd = os.pipe()
        os.set_blocking(self.read_fd, False)
        self.heard: list[bytes] = []
        self.at_once = at_once
        pump.add(self.read_fd, self.read)

    def read(self) -> int:
        data = os.read(self.read_fd, self.at_once)
        if not data:
            self.close()
        else:
            self.heard.append(data)
        return len(data)

    def close(self) -> None:
        self.pump.remove(self.read_fd)
        os.close(self.read_fd)
        self.read_fd = -1


async def until(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not check():  # noqa: ASYNC110 - the kernel tells the pump, not the test
            await asyncio.sleep(0.001)


async def test_lines_that_come_one_by_one_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_pump, "REST_S", 0.5)
    pipe = Pipe(OutputPump())
    os.write(pipe.write_fd, b"first ")
    await until(lambda: pipe.heard == [b"first "])
    for _ in range(50):
        os.write(pipe.write_fd, b"line ")
        await asyncio.sleep(0)
    await until(lambda: len(b"".join(pipe.heard)) == 256)
    assert len(pipe.heard) == 2, "the pump rested while they came"
    os.close(pipe.write_fd)
    await until(lambda: pipe.read_fd == -1)


async def test_a_stream_that_gives_much_is_read_without_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_pump, "REST_S", 3_600.0)
    pipe = Pipe(OutputPump(), at_once=output_pump.REST_BYTES_MAX)
    for _ in range(3):
        os.write(pipe.write_fd, b"x" * output_pump.REST_BYTES_MAX)
    await until(lambda: len(pipe.heard) == 3)
    os.close(pipe.write_fd)


async def test_ends_are_seen_and_a_later_pipe_starts_afresh() -> None:
    pump = OutputPump()
    for _ in range(3):
        pipes = [Pipe(pump) for _ in range(8)]
        for pipe in pipes:
            os.write(pipe.write_fd, b"word")
            os.close(pipe.write_fd)
        await until(lambda pipes=pipes: all(pipe.read_fd == -1 for pipe in pipes))  # type: ignore[misc]
        assert [pipe.heard for pipe in pipes] == [[b"word"]] * 8


async def test_a_pipe_may_be_taken_away_while_the_pump_rests() -> None:
    pump = OutputPump()
    one, two = Pipe(pump), Pipe(pump)
    os.write(one.write_fd, b"a")
    await until(lambda: one.heard == [b"a"])
    one.close()
    pump.remove(one.read_fd)
    os.write(two.write_fd, b"b")
    await until(lambda: two.heard == [b"b"])
    two.close()
    for pipe in (one, two):
        os.close(pipe.write_fd)
