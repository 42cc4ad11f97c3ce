"""What the status API shows, as values, and the ports it asks through. Adapters render them; nothing here decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from fault_contracts.agent import AgentPhase
from node_agent.application.ports import RankFiles, WorkerHandle

# ------------------------------------------------------------------------------------------------------ values


class RankState(StrEnum):
    """Where one rank of this node stands, for people."""

    NOT_STARTED = "not_started"
    RUNNING = "running"
    STOPPED = "stopped"
    """Its process is stopped by a signal (SIGSTOP) or a debugger."""
    BLOCKED = "blocked"
    """Its process was in uninterruptible sleep when it was looked at."""
    FAULTED = "faulted"
    """Its re-executable block failed; the process lives."""
    AT_BARRIER = "at_barrier"
    COMPLETED = "completed"
    FAILED = "failed"
    ENDED = "ended"
    """It was stopped by order, or its end is just being noticed."""


class LogStreamName(StrEnum):
    """A stream of a rank's output."""

    STDOUT = "stdout"
    STDERR = "stderr"


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultView:
    """The exit or exception that broke the newest generation that broke on this node."""

    rank: int
    topology_version: int
    status: str
    error_type: str
    message: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictView:
    """Why the planner started the present generation, in its own words."""

    rule_id: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    """The agent as a whole.

    Attributes:
        node_rank: None while this node has no row in the gang (a spare, or before the first start).
        step: the smallest last step of all local ranks; None while one has reported none.
        resumed_from_step: of the checkpoint that the present generation was started from.
        bus_connected: None before the first connection.
        planner_seen_age_s: since the planner last said something to this agent; None: it never did.
        bad_clients: reports and connections that were refused on the worker socket, in this agent's life.
    """

    job_id: str
    node_id: str
    instance_id: str
    host: str
    pid: int
    phase: AgentPhase
    topology_version: int
    node_rank: int | None
    nnodes: int
    nproc_per_node: int
    in_process: bool
    leaving: bool
    step: int | None
    resumed_from_step: int | None
    restart_count: int
    verdict: VerdictView | None
    last_fault: FaultView | None
    bus_connected: bool | None
    planner_seen_age_s: float | None
    outbox_events: int
    outbox_dropped: int
    bad_clients: int
    uptime_s: float
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RankView:
    """One rank of this node.

    Attributes:
        process_state: letter of /proc (R, S, D, T, Z, ...); empty when there is no process.
        last_step_age_s: since the last step was reported; None when this generation reported none.
        checkpoints: newest confirmed step by kind.
        log_state: what the log rules think of it; None without rules.
    """

    rank: int | None
    local_rank: int
    pid: int | None
    state: RankState
    process_state: str
    topology_version: int
    started_age_s: float | None
    step: int | None
    last_step_age_s: float | None
    checkpoints: Mapping[str, int]
    labels: Mapping[str, str]
    log_state: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TailView:
    """The end of one stream of a rank. `truncated`: there is more before the first line."""

    rank: int
    stream: LogStreamName
    path: str
    size_bytes: int
    truncated: bool
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameView:
    """One call."""

    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadView:
    """One thread, innermost call first."""

    thread_id: str
    is_main: bool
    frames: tuple[FrameView, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StacksView:
    """Stacks of all threads of a rank, taken for this request. `reason` says why there are none."""

    rank: int
    pid: int
    taken: bool
    reason: str
    threads: tuple[ThreadView, ...]
    raw: str


# ------------------------------------------------------------------------------------------------------- ports


class Backlog(Protocol):
    """The outbox, as far as it is shown."""

    dropped: int
    """Events given up because it was full."""

    def __len__(self) -> int:
        """Events that the bus does not have yet."""


class ProcessLook(Protocol):
    """A look at a worker's process."""

    def state_of(self, handle: WorkerHandle) -> str:
        """Its letter in /proc; empty when the process has ended."""

    def answers_dump_signal(self, handle: WorkerHandle, files: RankFiles) -> bool:
        """Whether the process has a handler for the stack-dump signal right now, and its stacks file open.

        Without a handler the signal kills. A script that closed all descriptors may have another file at that number
        by now, and the dump would go into it.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTail:
    """The last bytes of a file. `offset`: where in the file they begin."""

    path: str
    size_bytes: int
    offset: int
    data: bytes


class RankRecords(Protocol):
    """Reading what a rank's process has left in its files. Never raises for a file that is not there.

    Raises:
        TimeoutError: the file system does not answer.
    """

    async def tail(self, files: RankFiles, stream: LogStreamName, *, bytes_max: int) -> FileTail:
        """The end of a stream."""

    async def dump_mark(self, files: RankFiles) -> int:
        """Length of the stacks file now."""

    async def dump_after(self, files: RankFiles, mark: int, *, limit_s: float) -> str:
        """What came into the stacks file after the mark, once it has come to rest; empty when nothing came."""
