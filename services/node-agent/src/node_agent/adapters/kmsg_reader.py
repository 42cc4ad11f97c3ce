"""Reads kernel log records from /dev/kmsg, from a file that grows (tests, drills), or from a FIFO.

Blocks of records go through one RE2 automaton first: only those with a text that may mean something are looked at
(`make bench-kmsg`). Sequence numbers are followed for all of them: the device overwrites what nobody reads.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import re2  # type: ignore[import-untyped]

from node_agent.adapters.kmsg_stream import KmsgChunk, KmsgStream, LogAbsent, open_stream
from node_agent.application.collector_ports import CollectorFailed
from node_agent.application.watch_kernel_log import LogBatch
from node_agent.domain.kernel_line import NEEDLES
from node_agent.domain.kmsg_record import KmsgRecord, parse_record, sequence_of
from service_kit.logging import get_logger
from service_kit.ports import Clock

POLL_S = 0.2
"""Between looks at a file or for a file that is not there yet; the device and a FIFO wake the reader themselves."""
QUIET_S = 1.0
"""A batch comes at least so often, so that folded lines are told."""
DEVICE = Path("/dev/kmsg")
REMEDY = (
    "run the host role as root or with CAP_SYSLOG (sysctl kernel.dmesg_restrict), and in a container mount /dev/kmsg"
)

log = get_logger(__name__)


class RecordFilter:
    """Cuts a chunk into the records that may mean something, and counts those that are missing."""

    def __init__(self) -> None:
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        self._needles: Any = re2.compile("|".join(map(re.escape, NEEDLES)).encode(), options)
        self._sequence: int | None = None
        self.malformed = 0

    def take(self, data: bytes) -> tuple[list[KmsgRecord], int]:
        """`data`: whole records, a newline after each."""
        lost = self._lost(data)
        return list(self._records(data)), lost

    def forget(self) -> None:
        """What comes next need not follow: a file was truncated or replaced."""
        self._sequence = None

    def _records(self, data: bytes) -> Iterator[KmsgRecord]:
        end = 0
        for found in self._needles.finditer(data):
            if found.start() < end:
                continue
            start = data.rfind(b"\n", 0, found.start()) + 1
            end = data.find(b"\n", found.start())
            line = data[start:end]
            record = parse_record(line)
            if record is not None:
                yield record
            elif not line.startswith(b" "):  # ` KEY=value` continues the record before it
                self.malformed += 1

    def _lost(self, data: bytes) -> int:
        """Records missing before and within. First and last number and their count tell it without looking at each."""
        first = sequence_of(data)
        last = sequence_of(data[data.rfind(b"\n", 0, len(data) - 1) + 1 :])
        if first is not None and last is not None and last - first == data.count(b"\n") - 1:
            sequences: Sequence[int] = (first, last) if last != first else (first,)
            lost = 0 if self._sequence is None else max(0, first - self._sequence - 1)
            self._sequence = sequences[-1]
            return lost
        lost = 0
        for line in data.split(b"\n"):
            sequence = sequence_of(line)
            if sequence is None:
                continue
            if self._sequence is not None:
                lost += max(0, sequence - self._sequence - 1)
            self._sequence = sequence
        return lost


class KmsgReader:
    """application.watch_kernel_log.KernelLog on a path."""

    def __init__(self, clock: Clock, path: Path = DEVICE) -> None:
        self._clock = clock
        self._path = path
        self._filter = RecordFilter()

    async def batches(self) -> AsyncIterator[LogBatch]:
        """Until cancelled. Ends at once where the kernel log may not be read, after saying so."""
        stream = await self._opened()
        if stream is None:
            return
        try:
            opened_us = self._clock.monotonic_s() * 1e6 if stream.timed else math.inf
            while True:
                chunk = self._read(stream)
                if chunk.restarted:
                    self._filter.forget()
                records, lost = self._filter.take(chunk.data) if chunk.data else ([], 0)
                if records or lost or chunk.drained:
                    old_before_us = opened_us if chunk.backlog else 0.0
                    yield LogBatch(records=records, old_before_us=old_before_us, lost=lost, drained=chunk.drained)
                if chunk.drained:
                    await stream.wait(QUIET_S)
                else:
                    await asyncio.sleep(0)  # a long backlog must not hold the others up
        finally:
            stream.close()

    def _read(self, stream: KmsgStream) -> KmsgChunk:
        try:
            return stream.read()
        except OSError as error:
            raise CollectorFailed(f"{self._path} cannot be read any more: {error.strerror or error}") from error

    async def _opened(self) -> KmsgStream | None:
        """The stream; None when there is none here. A file of a drill may come later, the device never does."""
        told = False
        while True:
            try:
                return open_stream(self._path, poll_s=POLL_S, from_start=told)
            except LogAbsent as absent:
                if self._path == DEVICE or not absent.may_come:
                    log.warning("kernel_log_not_read", path=str(self._path), reason=str(absent), remedy=REMEDY)
                    return None
                if not told:
                    log.info("kernel_log_awaited", path=str(self._path), reason=str(absent))
                told = True
                await asyncio.sleep(POLL_S)
