"""CPU that an agent spends on its ranks' output: real pipes, files, terminal copy, log rules. For bench_agent."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from node_agent.adapters.output_pump import OutputPump
from node_agent.adapters.terminal import Terminal
from node_agent.adapters.worker_output import RankOutput, rank_files
from node_agent.application.output_tap import OutputPlace
from node_agent.application.ports import TerminalCopy
from node_agent.application.watch_logs import WatchLogs
from node_agent.domain.log_rule import LogStream
from training_topology.identity import LocalRank, Rank

WRITER = """
import os, sys, time
lines = sys.stdin.buffer.read().splitlines(keepends=True)
fds = [int(fd) for fd in sys.argv[2:]]
pause_s = 1 / float(sys.argv[1])
due_s = time.monotonic()
for number, line in enumerate(lines):
    os.write(fds[number % len(fds)], line)
    due_s += pause_s
    time.sleep(max(0.0, due_s - time.monotonic()))
"""
"""Each line alone, at an even rate, by another process whose CPU is its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchTap:
    """application.output_tap.OutputTap straight into the watch."""

    watch: WatchLogs

    def take(self, place: OutputPlace, stream: LogStream, data: bytes) -> None:
        """See the port."""
        self.watch.take(place.rank, stream, data)

    def end(self, place: OutputPlace, stream: LogStream) -> None:
        """See the port."""
        self.watch.end(place.rank, stream)


def cpu_share_of_output(lines: Sequence[bytes], *, lines_per_s: float, ranks: int, watch: WatchLogs | None) -> float:
    """Share of one core; without a watch: files and terminal alone."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(lines, lines_per_s, ranks, watch, Path(folder)))


async def _measure(
    lines: Sequence[bytes], lines_per_s: float, ranks: int, watch: WatchLogs | None, folder: Path
) -> float:
    sink = os.open(os.devnull, os.O_WRONLY)
    terminal = Terminal(stdout_fd=sink, stderr_fd=sink)
    tap = None if watch is None else WatchTap(watch=watch)
    pump = OutputPump()
    outputs = []
    for number in range(ranks):
        place = OutputPlace(topology_version=1, rank=Rank(number), local_rank=LocalRank(number))
        outputs.append(RankOutput(place, rank_files(folder, "bench", 1, number), TerminalCopy(), terminal, tap, pump))
    fds = [output.stdout.write_fd for output in outputs]
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(lines_per_s), *map(str, fds), stdin=subprocess.PIPE, pass_fds=fds
    )
    for output in outputs:
        output.started()
    assert writer.stdin is not None, "asked for a pipe"
    writer.stdin.write(b"".join(lines))
    await writer.stdin.drain()
    writer.stdin.close()
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    await writer.wait()
    share = (time.process_time() - began_cpu_s) / (time.monotonic() - began_s)
    for output in outputs:
        output.close()
    terminal.close()
    os.close(sink)
    return share
