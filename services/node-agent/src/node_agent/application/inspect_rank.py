"""A closer look at one rank for the status API: the end of its output, and its stacks, taken on request."""

from __future__ import annotations

from node_agent.application.agent_life import AgentLife
from node_agent.application.describe_agent import AgentDescriber
from node_agent.application.ports import RankFiles, WorkerHandle, WorkerProcesses
from node_agent.application.report_rank_faults import RankOutputFiles
from node_agent.application.status_views import (
    FrameView,
    LogStreamName,
    ProcessLook,
    RankRecords,
    StacksView,
    TailView,
    ThreadView,
)
from node_agent.domain.stack_dump import StackDump, parse_last_dump
from service_kit.ports import Clock
from training_topology.identity import LocalRank
from worker_link.linux import STACK_DUMP_SIGNAL

TAIL_BYTES_MAX = 256 * 1024
"""One answer: 16 times the longest line that is kept whole, and a millisecond to encode."""
DUMP_LIMIT_S = 2.0
"""A process that runs Python answers within a millisecond, a busy machine within a tenth of a second."""
DUMP_INTERVAL_S = 2.0
"""Between two dumps of one rank: each interrupts it for a millisecond and adds to its stacks file."""
STACKS_FILE_BYTES_MAX = 64 * 1024 * 1024
"""Some thousand dumps; past this nobody reads them, and a script in a loop must not fill the disk."""
RAW_LENGTH_MAX = 256 * 1024


class UnknownRank(Exception):
    """This node has no such rank now."""

    def __init__(self, rank: int, known: tuple[int, ...]) -> None:
        here = ", ".join(map(str, known[:64])) or "none yet"
        super().__init__(f"rank {rank} is not on this node; ranks here: {here}")


class TooSoon(Exception):
    """The rank was asked for its stacks a moment ago."""

    def __init__(self, rank: int, wait_s: float) -> None:
        super().__init__(f"rank {rank} was asked for its stacks a moment ago; ask again in {wait_s:.1f} s")
        self.wait_s = wait_s


class RankInspection:
    """Answers /logs/tail and /stacks."""

    def __init__(
        self,
        life: AgentLife,
        describer: AgentDescriber,
        processes: WorkerProcesses,
        look: ProcessLook,
        records: RankRecords,
        outputs: RankOutputFiles,
        clock: Clock,
    ) -> None:
        self._life = life
        self._describer = describer
        self._processes = processes
        self._look = look
        self._records = records
        self._outputs = outputs
        self._clock = clock
        self._asked_at_s: dict[LocalRank, float] = {}

    async def tail(self, rank: int, stream: LogStreamName, *, lines_max: int) -> TailView:
        """The last lines that a rank wrote.

        Raises:
            UnknownRank: it is not here.
        """
        found = await self._records.tail(self._files(self._handle(rank)), stream, bytes_max=TAIL_BYTES_MAX)
        pieces = found.data.split(b"\n")
        if pieces[-1] == b"":
            pieces.pop()
        if found.offset > 0 and len(pieces) > 1:
            pieces.pop(0)  # its beginning lies before what was read
        lines = pieces[-lines_max:]
        return TailView(
            rank=rank,
            stream=stream,
            path=found.path,
            size_bytes=found.size_bytes,
            truncated=found.offset > 0 or len(lines) < len(pieces),
            lines=tuple(line.decode(errors="backslashreplace") for line in lines),
        )

    async def stacks(self, rank: int) -> StacksView:
        """Ask a rank's process for the stacks of all its threads, and wait for them a little.

        Raises:
            UnknownRank: it is not here.
            TooSoon: DUMP_INTERVAL_S is not over.
        """
        handle = self._handle(rank)
        now_s = self._clock.monotonic_s()
        wait_s = self._asked_at_s.get(handle.local_rank, now_s - DUMP_INTERVAL_S) + DUMP_INTERVAL_S - now_s
        if wait_s > 0:
            raise TooSoon(rank, wait_s)
        self._asked_at_s[handle.local_rank] = now_s
        files = self._files(handle)
        mark = await self._records.dump_mark(files)
        reason = self._refusal(handle, files, mark)
        if reason:
            return _without(handle, reason)
        self._processes.signal(handle, STACK_DUMP_SIGNAL)
        raw = await self._records.dump_after(files, mark, limit_s=DUMP_LIMIT_S)
        dump = parse_last_dump(raw)
        if dump is None:
            state = self._look.state_of(handle)
            return _without(handle, f"no dump came within {DUMP_LIMIT_S:g} s; process state {state or 'ended'}", raw)
        return StacksView(
            rank=rank, pid=handle.pid, taken=True, reason="", threads=_threads(dump), raw=raw[-RAW_LENGTH_MAX:]
        )

    def _handle(self, rank: int) -> WorkerHandle:
        handle = self._describer.handle_of(rank)
        if handle is None:
            raise UnknownRank(rank, self._describer.known_ranks())
        return handle

    def _refusal(self, handle: WorkerHandle, files: RankFiles, mark: int) -> str:
        """Why no signal is sent; empty when it may be."""
        if handle not in self._processes.running():
            return "its process has ended"
        if not handle.stacks_on_signal or not self._look.answers_dump_signal(handle, files):
            return (
                "its process has no handler for the dump signal (not Python, or not yet up), or closed its stacks "
                "file; a signal would harm it"
            )
        if mark > STACKS_FILE_BYTES_MAX:
            return f"its stacks file holds {mark} bytes already; read it, or remove it"
        return ""

    def _files(self, handle: WorkerHandle) -> RankFiles:
        """A process that was restarted in place writes on into the files of the generation it was born in."""
        known = self._outputs.files_of(handle)
        return known or self._life.program.files(handle.topology_version, handle.local_rank)


def _without(handle: WorkerHandle, reason: str, raw: str = "") -> StacksView:
    return StacksView(
        rank=handle.rank, pid=handle.pid, taken=False, reason=reason, threads=(), raw=raw[-RAW_LENGTH_MAX:]
    )


def _threads(dump: StackDump) -> tuple[ThreadView, ...]:
    main = dump.main
    return tuple(
        ThreadView(
            thread_id=thread.thread_id,
            is_main=thread is main,
            frames=tuple(FrameView(file=f.file, line=f.line, function=f.function) for f in thread.frames),
        )
        for thread in dump.threads
    )
