"""Reads the output of the ranks by the signatures of fault-attribution, and tells the judge what they find.

Every line of every rank goes through; what is found is folded and told within 50 ms, and before the death that it
explains. It stands beside the output, never in its way: what it may cost is bounded, and a failure in here costs
findings and is told once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from fault_contracts.findings import (
    CAPTURES_MAX,
    EXCERPT_CHARS_MAX,
    FINDINGS_MAX,
    FindingsReported,
    LogFinding,
)
from node_agent.application.agent_life import AgentLife
from node_agent.application.control_ports import Announcer
from node_agent.application.outgoing import Outgoing
from node_agent.application.output_tap import OutputPlace
from node_agent.application.ports import WorkerExit
from node_agent.domain.finding_fold import FindingFold, Found, Told
from node_agent.domain.line_splitter import Block, LineSplitter
from node_agent.domain.log_rule import LogStream
from node_agent.domain.worker_group import WorkerGroup
from service_kit.ports import Clock
from training_topology.identity import Rank

FLUSH_S = 0.03
"""From the first new finding to its report: lines of one failure come together, and 50 ms is promised."""
WINDOW_S = 10.0
BUSY_SHARE_MAX = 0.05
"""Of one core, averaged over a window. Healthy output needs a hundredth of it; a rank that prints errors as fast as it
can must not slow its node down. What is not read then is counted. Half of it is kept for stderr, where causes are."""
EARLY_BYTES_MAX = 1 << 20
"""Output kept until the signatures are loaded, which takes a second or two of the start."""
MESSAGES_MAX = 256
"""Reports in one generation; a rank that finds a new error every moment has told enough by then."""
STACKS = "stacks"
"""The stream of what stacks tell: no output, and no order among it."""


class LineReader(Protocol):
    """Signatures, ready to run."""

    def read(self, data: bytes, stream: LogStream) -> Iterable[Found]:
        """What they find in whole lines, in their order."""
        ...


class FindingReader:
    """application.output_tap.OutputTap and application.group_watch.GroupWatch."""

    def __init__(self, life: AgentLife, outgoing: Outgoing, clock: Clock, announcer: Announcer) -> None:
        self._life = life
        self._outgoing = outgoing
        self._clock = clock
        self._announcer = announcer
        self._reader: LineReader | None = None
        self._early: list[tuple[OutputPlace, LogStream, bytes]] = []
        self._early_bytes = 0
        self._version = 0
        self._splitters: dict[tuple[Rank, LogStream], LineSplitter] = {}
        self._fold = FindingFold()
        self._timer: asyncio.TimerHandle | None = None
        self._messages = 0
        self._is_muted = True
        self._window_at_s = 0.0
        self._busy_s = 0.0
        self.skipped_bytes = 0
        """Output that was not read: too much of it, or a failure in here."""

    def use(self, reader: LineReader) -> None:
        """Read by these signatures from now on, and what came before there were any."""
        self._reader = reader
        early, self._early, self._early_bytes = self._early, [], 0
        for place, stream, data in early:
            if place.topology_version == self._version:
                self._read(place.rank, stream, data)

    # ------------------------------------------------------------------------------------------------- output

    def take(self, place: OutputPlace, stream: LogStream, data: bytes) -> None:
        """See the port."""
        if place.topology_version != self._version:
            return
        splitter = self._splitters.setdefault((place.rank, stream), LineSplitter())
        self._blocks(place, stream, splitter.feed(data))

    def end(self, place: OutputPlace, stream: LogStream) -> None:
        """See the port."""
        splitter = self._splitters.get((place.rank, stream))
        if splitter is not None and place.topology_version == self._version:
            self._blocks(place, stream, splitter.flush())

    # -------------------------------------------------------------------------------------------------- group

    def on_begun(self, group: WorkerGroup, continuing: Collection[Rank]) -> None:
        """See the port."""
        self._version = group.topology_version
        self._splitters = {key: each for key, each in self._splitters.items() if key[0] in continuing}
        self._fold = FindingFold()
        self._messages = 0
        self._is_muted = False

    def on_started(self) -> None:
        """See the port."""

    def on_exit(self, ended: WorkerExit) -> None:
        """See the port: called before the death is told, so that what explains it is on its way first."""
        if ended.handle.topology_version != self._version or self._is_muted:
            return
        for stream in LogStream:
            splitter = self._splitters.get((ended.handle.rank, stream))
            for block in () if splitter is None else splitter.flush():
                self._read(ended.handle.rank, stream, block.data)
        self._tell(everything=True)

    def on_stopping(self) -> None:
        """See the port: what ranks say while they are ended is no news."""
        if not self._is_muted:
            self._tell(everything=True)
        self._is_muted = True

    def tell_stacks(self, topology_version: int, stacks: Mapping[Rank, Found]) -> None:
        """Where ranks stood when another one ended; told also while the ranks are being stopped."""
        if topology_version != self._version or not stacks:
            return
        now = self._clock.now()
        told = [
            Told(found=found, rank=rank, stream=STACKS, ordinal=0, count=1, observed_at=now)
            for rank, found in stacks.items()
        ]
        for begin in range(0, len(told), FINDINGS_MAX):
            self._outgoing.send(self._report(told[begin : begin + FINDINGS_MAX]), urgent=True)

    def close(self) -> None:
        """No timer is left."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ------------------------------------------------------------------------------------------------ reading

    def _blocks(self, place: OutputPlace, stream: LogStream, blocks: list[Block]) -> None:
        for block in blocks:
            if self._reader is not None:
                self._read(place.rank, stream, block.data)
            elif self._early_bytes + len(block.data) <= EARLY_BYTES_MAX:
                self._early.append((place, stream, block.data))
                self._early_bytes += len(block.data)
            else:
                self.skipped_bytes += len(block.data)

    def _read(self, rank: Rank, stream: LogStream, data: bytes) -> None:
        if self._reader is None or self._is_muted:
            return
        began_s = self._clock.monotonic_s()
        if began_s - self._window_at_s >= WINDOW_S:
            self._window_at_s, self._busy_s = began_s, 0.0
        share = BUSY_SHARE_MAX if stream is LogStream.STDERR else BUSY_SHARE_MAX / 2
        if self._busy_s > WINDOW_S * share:
            self.skipped_bytes += len(data)
            return
        now = self._clock.now()
        due = False
        try:
            for found in self._reader.read(data, stream):
                due = self._fold.add(found, rank, stream.value, now) or due
        except Exception as error:  # noqa: BLE001 - a bug in here must not end the training's output
            self._reader = None
            self.skipped_bytes += len(data)
            self._announcer.say(f"the output of the ranks is not read for findings any more: {error!r}")
        self._busy_s += self._clock.monotonic_s() - began_s
        if due and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_S, self._flush)

    def _flush(self) -> None:
        self._timer = None
        if not self._is_muted:
            self._tell(everything=False)

    def _tell(self, *, everything: bool) -> None:
        self.close()
        told = list(self._fold.due(everything=everything))
        for begin in range(0, len(told), FINDINGS_MAX):
            if self._messages >= MESSAGES_MAX and not everything:
                return
            self._messages += 1
            self._outgoing.send(self._report(told[begin : begin + FINDINGS_MAX]), urgent=True)

    def _report(self, told: list[Told]) -> FindingsReported:
        identity = self._life.identity
        pids = {handle.rank: handle.pid for handle in self._life.handles}
        return FindingsReported(
            node_id=identity.node_id,
            instance_id=identity.instance_id,
            job_id=identity.job_id,
            topology_version=self._version,
            findings=tuple(_finding(each, pids.get(each.rank)) for each in told),
            dropped=self._fold.dropped,
            reported_at=self._clock.now(),
        )


def _finding(told: Told, pid: int | None) -> LogFinding:
    found = told.found
    return LogFinding(
        kind=found.kind[:256],
        role=found.role,
        signature_id=found.signature_id[:256],
        rank=told.rank,
        pid=pid,
        stream=told.stream,
        device=_printable(found.device)[:256],
        excerpt=_printable(found.text)[:EXCERPT_CHARS_MAX],
        captures={name: _printable(value)[:200] for name, value in list(found.captures.items())[:CAPTURES_MAX]},
        count=told.count,
        ordinal=told.ordinal,
        observed_at=told.observed_at,
    )


def _printable(text: str) -> str:
    """A line may hold anything; whoever shows it must not have to ask what."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
