"""Output of ranks on real pipes and files: full disk, slow terminal, late descendants."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from node_agent.adapters.terminal import QUEUE_BYTES_MAX, Terminal
from node_agent.adapters.worker_output import OutputFile, RankOutput, rank_files
from node_agent.application.ports import TerminalCopy, WorkerStartError


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
    output = RankOutput(5, files, TerminalCopy(), terminal)
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
        RankOutput(0, rank_files(tmp_path, "job", 1, 0), TerminalCopy(), terminal)
    read()


@pytest.mark.asyncio
async def test_stuck_terminal_neither_blocks_nor_loses_anything_from_the_file(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    terminal = Terminal(stdout_fd=write_end, stderr_fd=write_end)
    files = rank_files(tmp_path, "job", 1, 0)
    output = RankOutput(0, files, TerminalCopy(), terminal)
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
    output = RankOutput(0, files, TerminalCopy(stdout=False, stderr=False), terminal)
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
    output = RankOutput(7, files, TerminalCopy(), terminal)
    late = os.dup(output.stdout.write_fd)
    output.started()
    os.write(late, b"late wo")
    os.write(late, b"rd\nand half")
    await arrived(lambda: files.stdout.exists() and files.stdout.stat().st_size == 18)
    output.close()
    os.close(late)
    assert read() == b"[7]: late word\n[7]: and half\n"
