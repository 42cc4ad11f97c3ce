"""Output of ranks on real pipes and files: full disk, slow terminal, late descendants."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from node_agent.adapters.terminal import QUEUE_BYTES_MAX, Terminal
from node_agent.adapters.worker_output import OutputFile, RankOutput, rank_files
from node_agent.application.output_tap import OutputPlace
from node_agent.application.ports import TerminalCopy, WorkerStartError
from node_agent.domain.log_rule import LogStream
from training_topology.identity import LocalRank, Rank


def place(rank: int, version: int = 1) -> OutputPlace:
    return OutputPlace(topology_version=version, rank=Rank(rank), local_rank=LocalRank(rank))


class Tap:
    """application.output_tap.OutputTap that remembers, or fails."""

    def __init__(self, *, broken: bool = False) -> None:
        self.heard: list[tuple[int, int, LogStream, bytes | None]] = []
        self.broken = broken

    def take(self, place: OutputPlace, stream: LogStream, data: bytes) -> None:
        if self.broken:
            raise RuntimeError("the watch is broken")
        self.heard.append((place.topology_version, place.rank, stream, data))

    def end(self, place: OutputPlace, stream: LogStream) -> None:
        self.heard.append((place.topology_version, place.rank, stream, None))


def shown(tmp_path: Path) -> tuple[Terminal, Callable[[], bytes]]:
    path = tmp_path / "terminal.txt"
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    terminal = Terminal(stdout_fd=fd, stderr_fd=fd)

    def read() -> bytes:
        terminal.close()
        os.close(fd)
        return path.read_bytes()

    return terminal, read


async def arrived(check: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not check():  # noqa: ASYNC110  what is waited for happens outside this loop
            await asyncio.sleep(0.005)


@pytest.mark.asyncio
async def test_full_disk_is_told_once_and_the_worker_writes_on(tmp_path: Path) -> None:
    files = rank_files(tmp_path, "job", 3, 0)
    assert files.stdout == tmp_path / "job/attempt_3/0/stdout.log"
    files.directory.mkdir(parents=True)
    files.stdout.symlink_to("/dev/full")
    terminal, read = shown(tmp_path)
    output = RankOutput(place(5), files, TerminalCopy(), terminal)
    for _ in range(20):
        assert os.write(output.stdout.write_fd, b"x" * 65535 + b"\n") == 65536
        output.drain()
    os.write(output.stderr.write_fd, b"err\n")
    output.close()
    text = read()
    assert text.count(b"No space left on device. Training goes on") == 1
    assert str(files.stdout).encode() in text
    assert text.count(b"[5]: x") == 20 * 4
    assert files.stderr.read_bytes() == b"err\n"


@pytest.mark.asyncio
async def test_disk_that_was_full_for_a_while_leaves_a_mark_with_the_count(tmp_path: Path) -> None:
    notices: list[str] = []
    file = OutputFile(tmp_path / "log", notices.append)
    file.write(b"before\n")
    full = os.open("/dev/full", os.O_WRONLY)
    good = os.dup(file._fd)  # type: ignore[arg-type]
    os.dup2(full, file._fd)  # type: ignore[arg-type]
    file.write(b"lost line\n")
    file.write(b"another\n")
    os.dup2(good, file._fd)  # type: ignore[arg-type]
    file.write(b"after\n")
    file.close()
    os.close(full)
    os.close(good)
    assert file.lost_bytes == 18
    assert len(notices) == 1
    assert (tmp_path / "log").read_text() == "before\nafter\n\n[phalanx] 18 bytes were lost here (disk full)\n"


@pytest.mark.asyncio
async def test_log_folder_that_cannot_be_made_refuses_the_start(tmp_path: Path) -> None:
    (tmp_path / "job").write_text("a file where the folder should be")
    terminal, read = shown(tmp_path)
    with pytest.raises(WorkerStartError, match="log folder"):
        RankOutput(place(0), rank_files(tmp_path, "job", 1, 0), TerminalCopy(), terminal)
    read()


@pytest.mark.asyncio
async def test_stuck_terminal_neither_blocks_nor_loses_anything_from_the_file(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    terminal = Terminal(stdout_fd=write_end, stderr_fd=write_end)
    files = rank_files(tmp_path, "job", 1, 0)
    output = RankOutput(place(0), files, TerminalCopy(), terminal)
    block = b"y" * 1023 + b"\n"
    count = 3 * QUEUE_BYTES_MAX // len(block)
    for _ in range(count):
        os.write(output.stdout.write_fd, block)
        output.drain()
    assert terminal.dropped_lines > count // 2
    output.close()
    assert files.stdout.stat().st_size == count * len(block)
    os.close(read_end)  # the window is closed: the writer thread ends its wait
    terminal.close()
    os.close(write_end)


@pytest.mark.asyncio
async def test_no_terminal_copy_still_keeps_files_and_tail(tmp_path: Path) -> None:
    terminal, read = shown(tmp_path)
    files = rank_files(tmp_path, "job", 1, 0)
    output = RankOutput(place(0), files, TerminalCopy(stdout=False, stderr=False), terminal)
    os.write(output.stdout.write_fd, b"out\n")
    os.write(output.stderr.write_fd, b"".join(b"line %d\n" % n for n in range(80)) + b"half \xff")
    await arrived(lambda: output.stderr.tail()[-1:] == ("half \\xff",))
    assert output.stderr.tail()[0] == "line 31"
    assert len(output.stderr.tail()) == 50
    output.close()
    assert files.stdout.read_bytes() == b"out\n"
    assert read() == b""


@pytest.mark.asyncio
async def test_descendant_that_keeps_the_pipe_is_still_heard_until_close(tmp_path: Path) -> None:
    terminal, read = shown(tmp_path)
    files = rank_files(tmp_path, "job", 1, 0)
    output = RankOutput(place(7), files, TerminalCopy(), terminal)
    late = os.dup(output.stdout.write_fd)
    output.started()
    os.write(late, b"late wo")
    os.write(late, b"rd\nand half")
    await arrived(lambda: files.stdout.exists() and files.stdout.stat().st_size == 18)
    output.close()
    os.close(late)
    assert read() == b"[7]: late word\n[7]: and half\n"


@pytest.mark.asyncio
async def test_the_watch_hears_each_byte_of_both_streams_with_the_rank_of_that_moment(tmp_path: Path) -> None:
    terminal, read = shown(tmp_path)
    tap = Tap()
    copy = TerminalCopy(stdout=False, stderr=False)
    output = RankOutput(place(3), rank_files(tmp_path, "job", 1, 3), copy, terminal, tap)
    os.write(output.stdout.write_fd, b"half \xff")
    os.write(output.stderr.write_fd, b"old\n")
    output.renew(place(2, version=2))
    os.write(output.stdout.write_fd, b"new\n")
    output.close()
    assert tap.heard == [
        (1, 3, LogStream.STDOUT, b"half \xff"),
        (1, 3, LogStream.STDERR, b"old\n"),
        (2, 2, LogStream.STDOUT, b"new\n"),
        (2, 2, LogStream.STDOUT, None),
        (2, 2, LogStream.STDERR, None),
    ]
    read()


@pytest.mark.asyncio
async def test_a_watch_that_breaks_costs_no_output_and_is_told_once_a_stream(tmp_path: Path) -> None:
    terminal, read = shown(tmp_path)
    files = rank_files(tmp_path, "job", 1, 0)
    output = RankOutput(place(0), files, TerminalCopy(), terminal, Tap(broken=True))
    for _ in range(5):
        os.write(output.stdout.write_fd, b"step\n")
        output.drain()
    output.close()
    assert files.stdout.read_bytes() == b"step\n" * 5
    text = read()
    assert text.count(b"[0]: step") == 5
    assert text.count(b"is not watched any more") == 1
