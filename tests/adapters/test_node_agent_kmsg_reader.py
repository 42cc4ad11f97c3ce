"""The kernel log's reader on real files and FIFOs: growing, truncated, replaced, absent, forbidden, overrun."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from node_agent.adapters.kmsg_reader import KmsgReader, RecordFilter
from node_agent.application.watch_kernel_log import LogBatch
from service_kit.clock import SystemClock

LIMIT_S = 60.0


def line(sequence: int, text: str = "NVRM: Xid (PCI:0000:3b:00): 79, off", *, priority: int = 3) -> str:
    return f"{priority},{sequence},{sequence * 1000},-;{text}\n"


class Reading:
    """A reader at work, and what it gave."""

    def __init__(self, path: Path) -> None:
        self.batches: list[LogBatch] = []
        self._news = asyncio.Event()
        self._task = asyncio.create_task(self._run(path))

    async def _run(self, path: Path) -> None:
        async for batch in KmsgReader(SystemClock(), path).batches():
            self.batches.append(batch)
            self._news.set()

    async def until(self, met: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not met():
                self._news.clear()
                await self._news.wait()

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def ended(self) -> None:
        await asyncio.wait_for(self._task, LIMIT_S)

    def seen(self) -> list[int]:
        return [record.sequence for batch in self.batches for record in batch.records]

    def old(self) -> list[int]:
        return [
            record.sequence
            for batch in self.batches
            for record in batch.records
            if record.since_boot_us < batch.old_before_us
        ]

    def lost(self) -> int:
        return sum(batch.lost for batch in self.batches)

    def drained(self) -> bool:
        return any(batch.drained for batch in self.batches)


@asynccontextmanager
async def reading(path: Path) -> AsyncIterator[Reading]:
    reader = Reading(path)
    try:
        yield reader
    finally:
        await reader.end()


@pytest.mark.asyncio
async def test_a_backlog_is_old_and_what_is_added_is_new(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(line(1) + line(2))
    async with reading(path) as log:
        await log.until(log.drained)
        with path.open("a") as file:
            file.write(line(3) + " SUBSYSTEM=pci\n" + line(4, "something else") + line(5))
        await log.until(lambda: 5 in log.seen())
        assert (log.seen(), log.old(), log.lost()) == ([1, 2, 3, 5], [1, 2], 0)


@pytest.mark.asyncio
async def test_a_line_that_comes_in_pieces_is_one(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.touch()
    async with reading(path) as log:
        await log.until(log.drained)
        for part in (line(1)[:20], line(1)[20:40], line(1)[40:]):
            with path.open("a") as file:
                file.write(part)
            count = len(log.batches)
            await log.until(lambda count=count: len(log.batches) > count + 1)  # type: ignore[misc]
        await log.until(lambda: log.seen() == [1])


@pytest.mark.asyncio
async def test_a_truncated_and_a_replaced_file_begin_anew(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(line(100) + line(101))
    async with reading(path) as log:
        await log.until(log.drained)
        path.write_text(line(1))
        await log.until(lambda: 1 in log.seen())
        with path.open("a") as file:
            file.write(line(2))
        path.rename(tmp_path / "kmsg.1")
        path.write_text(line(7))
        await log.until(lambda: 7 in log.seen())
        assert (log.seen(), log.lost()) == ([100, 101, 1, 2, 7], 0)
        assert log.old() == [100, 101]


@pytest.mark.asyncio
async def test_a_fifo_with_writers_that_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    os.mkfifo(path)
    async with reading(path) as log:
        await log.until(log.drained)
        for sequence in (1, 2):
            with path.open("w") as writer:
                writer.write(line(sequence))
            await log.until(lambda sequence=sequence: sequence in log.seen())  # type: ignore[misc]
        assert log.old() == []


@pytest.mark.asyncio
async def test_missing_numbers_are_lost_records(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    path.write_text(line(5) + line(6, "nothing") + line(10) + " KEY=value\n" + line(11))
    async with reading(path) as log:
        await log.until(log.drained)
        with path.open("a") as file:
            file.write(line(20))
        await log.until(lambda: 20 in log.seen())
        assert log.lost() == 3 + 8


@pytest.mark.asyncio
async def test_a_file_of_a_drill_may_come_later_and_is_not_old(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    async with reading(path) as log:
        await asyncio.sleep(0)
        path.write_text(line(1))
        await log.until(lambda: log.seen() == [1])


@pytest.mark.asyncio
async def test_what_may_not_be_read_is_said_once_with_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = Reading(tmp_path)  # a folder is no log
    await log.ended()
    assert log.batches == []
    assert capsys.readouterr().out.count("kernel_log_not_read") == 1


@pytest.mark.asyncio
async def test_a_device_that_gives_nothing_is_waited_for() -> None:
    async with reading(Path("/dev/null")) as log:
        await log.until(log.drained)


def test_a_block_is_cut_into_the_records_that_matter() -> None:
    records, lost = RecordFilter().take("".join(line(n, "x" if n % 3 else "EDAC MC0: y") for n in range(999)).encode())
    assert ([record.sequence for record in records], lost) == (list(range(0, 999, 3)), 0)


def test_a_record_with_two_needles_is_one_and_junk_is_none() -> None:
    data = line(1, "NVRM: Xid NVRM: Xid") + "no record with NVRM: in it\n" + " NVRM: continued\n" + line(2)
    cut = RecordFilter()
    records, lost = cut.take(data.encode())
    assert ([record.sequence for record in records], lost, cut.malformed) == ([1, 2], 0, 1)


def test_a_line_without_an_end_costs_no_memory(tmp_path: Path) -> None:
    from node_agent.adapters.kmsg_stream import RECORD_BYTES_MAX, open_stream

    path = tmp_path / "kmsg"
    path.write_bytes(b"x" * (6 * RECORD_BYTES_MAX) + b"\n" + line(3).encode())
    stream = open_stream(path, poll_s=1, from_start=False)
    try:
        assert stream.read().data.endswith(line(3).encode())
    finally:
        stream.close()
