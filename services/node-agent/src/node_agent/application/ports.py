"""What the use cases of the agent need from outside, as Protocols, and the values that cross those doors.

The use cases see only this file; adapters implement it, tests bring fakes of the same shape. One block per concern.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from signal import SIGTERM, Signals
from typing import Protocol

from training_topology.identity import LocalRank, Rank
from worker_link.block_messages import BlockMessage, BlockOrder
from worker_link.messages import CheckpointSaved, Hello, RankLabels, RestartRequest, Step
from worker_link.phase_messages import PhaseBegun, PhaseDone

# ------------------------------------------------------------------------------------------- worker processes


class WorkerSource(StrEnum):
    """Where a worker process came from."""

    NURSERY = "nursery"
    """Forked from the process that has torch imported already."""
    SPAWN = "spawn"
    """A fresh interpreter (or program): slower, always works."""


class ProgramKind(StrEnum):
    """How the worker's program is named (torchrun: script, `-m`, `--no-python`)."""

    SCRIPT = "script"
    MODULE = "module"
    EXECUTABLE = "executable"


@dataclass(frozen=True, slots=True, kw_only=True)
class TerminalCopy:
    """Which streams of a rank are copied to the terminal; the files get everything in any case."""

    stdout: bool = True
    stderr: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFiles:
    """Files of one rank in one attempt: `<log_dir>/<run_id>/attempt_<topology_version>/<local_rank>/...`."""

    directory: Path
    stdout: Path
    stderr: Path
    error: Path
    """TORCHELASTIC_ERROR_FILE."""
    stacks: Path
    """faulthandler's dumps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """One worker to start.

    Attributes:
        program: path of the script, dotted name of the module, or executable, as `kind` says.
        env: the complete environment of the worker; nothing is inherited. The adapter adds TORCHELASTIC_ERROR_FILE
            (from `files`) and PHALANX_WORKER_SOCKET when they are absent.
        cwd: working folder of the worker; a relative `program` is meant from here.
    """

    rank: Rank
    local_rank: LocalRank
    topology_version: int
    kind: ProgramKind = ProgramKind.SCRIPT
    program: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str]
    cwd: Path
    files: RankFiles
    terminal: TerminalCopy = TerminalCopy()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerHandle:
    """One started worker. `start_ticks` (field 22 of /proc/PID/stat) tells it from a recycled pid."""

    rank: Rank
    local_rank: LocalRank
    topology_version: int
    pid: int
    start_ticks: int
    source: WorkerSource
    started_at: datetime
    stacks_on_signal: bool
    """True when the worker answers worker_link.linux.STACK_DUMP_SIGNAL with a dump into `files.stacks`."""


class OomKill(StrEnum):
    """Whether the kernel's out-of-memory killer ended the worker."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerError:
    """The exception that ended a worker, from its error file or from the last traceback in its stderr.

    Attributes:
        source: `error_file`, `stderr` or `malformed_error_file`.
        type: name of the exception's class without its module, for example `RuntimeError`.
        frames: outermost first, `file:line in function: source text`.
        fingerprint: the same for the same mistake on any rank, attempt or machine; empty when nothing is known.
        at: when the worker recorded it, if it said so.
    """

    source: str
    type: str
    message: str
    frames: tuple[str, ...] = ()
    fingerprint: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerExit:
    """How a worker ended. Exactly one of exit_code and signal is set; neither when nobody could tell (unknown).

    Attributes:
        requested: True when the agent itself was stopping this worker when it ended.
        oom_evidence: one sentence with what the kernel said; empty when oom_kill is unknown without a trace.
        stderr_tail: the last lines (at most 50) the worker wrote to stderr.
        status_reason: why the status is unknown; empty when it is known.
    """

    handle: WorkerHandle
    exit_code: int | None = None
    signal: int | None = None
    core_dumped: bool = False
    requested: bool = False
    oom_kill: OomKill = OomKill.UNKNOWN
    oom_evidence: str = ""
    ran_s: float = 0.0
    max_rss_bytes: int | None = None
    exited_at: datetime
    error: WorkerError | None = None
    stderr_tail: tuple[str, ...] = ()
    status_reason: str = ""
    process_alive: bool = False
    """It gave up its work inside a re-executable block, and the process goes on."""

    @property
    def succeeded(self) -> bool:
        """True only for a known exit code 0."""
        return self.exit_code == 0

    @property
    def status(self) -> str:
        """For people: `exit code 3`, `SIGKILL`, `unknown (...)`."""
        if self.process_alive:
            return "an exception in its re-executable block"
        if self.exit_code is not None:
            return f"exit code {self.exit_code}"
        if self.signal is not None:
            try:
                return Signals(self.signal).name
            except ValueError:
                return f"signal {self.signal}"
        return f"unknown ({self.status_reason})"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOutcome:
    """What `stop` reached. What is named in `unkillable` and `leftover_pids` survived SIGKILL past the limit."""

    exits: tuple[WorkerExit, ...] = ()
    unkillable: tuple[WorkerHandle, ...] = ()
    leftover_pids: tuple[int, ...] = ()
    took_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyReport:
    """State of the nursery: ready or not, and the notice to show to the person when not."""

    ready: bool
    pid: int | None = None
    preloaded: tuple[str, ...] = ()
    failed_preloads: Mapping[str, str] = field(default_factory=dict)
    took_s: float = 0.0
    notice: str = ""


class WorkerStartError(Exception):
    """A worker could not be started; the message is for the user (missing script, folder not writable, ...)."""


class WorkerProcesses(Protocol):
    """Starts, watches and ends the workers of this node. All methods are called on the event loop."""

    def on_exit(self, callback: Callable[[WorkerExit], None]) -> None:
        """Set the one callback; it gets every exit once, requested or not, as soon as the kernel tells."""

    async def prepare(self, env: Mapping[str, str]) -> StandbyReport:
        """Start the nursery with the environment that imports depend on. Never raises; a failure is a notice."""

    async def start(self, spec: WorkerSpec) -> WorkerHandle:
        """Start one worker; concurrent calls are fine.

        Raises:
            WorkerStartError: it could not be started.
        """

    async def stop(
        self,
        handles: Sequence[WorkerHandle],
        *,
        grace_s: float,
        first_signal: Signals = SIGTERM,
        condemned: Collection[int] = (),
    ) -> StopOutcome:
        """End workers and all their descendants: first_signal, grace_s, then SIGKILL.

        Ranks in `condemned` get SIGKILL at once: they hang and would not use the grace.

        Handles that have ended already are fine: what they left behind is cleaned up. A process that survives
        SIGKILL (uninterruptible sleep) is reported after a limit, not waited for.
        """

    def running(self) -> tuple[WorkerHandle, ...]:
        """Workers whose exit has not been reported yet."""

    def reassign(self, handle: WorkerHandle, *, rank: Rank, topology_version: int) -> WorkerHandle:
        """The same process, in another generation: from now on it is known by the new handle."""

    def signal(self, handle: WorkerHandle, number: int) -> bool:
        """Send one signal to the worker process alone; False when it has ended."""

    def stderr_tail(self, rank: Rank) -> tuple[str, ...]:
        """The last lines of stderr of the newest worker of a rank."""

    async def close(self) -> None:
        """Kill whatever is left, end the nursery, close all files."""


# --------------------------------------------------------------------------------------------- worker reports


class WorkerReports(Protocol):
    """What workers say over the worker socket; a use case implements it, the socket server calls it.

    A handle identifies the worker whose process tree the connection comes from, never what the message claims.
    """

    def on_hello(self, handle: WorkerHandle, message: Hello) -> None:
        """The worker uses worker-link."""

    def on_step(self, handle: WorkerHandle, message: Step) -> None:
        """A step started or finished."""

    def on_checkpoint(self, handle: WorkerHandle, message: CheckpointSaved) -> None:
        """This rank's part of a checkpoint is durable."""

    def on_phase(self, handle: WorkerHandle, message: PhaseBegun | PhaseDone) -> None:
        """The rank declares a long phase, or its end."""

    def on_labels(self, handle: WorkerHandle, message: RankLabels) -> None:
        """The rank's place in the parallel layout (dp, tp, pp, ...)."""

    def on_restart_request(self, handle: WorkerHandle, message: RestartRequest) -> None:
        """The script asks for a restart of a level."""

    def on_block(self, handle: WorkerHandle, message: BlockMessage) -> None:
        """A word of the rank's re-executable block."""

    def on_block_lost(self, handle: WorkerHandle) -> None:
        """The block's connection ended: the rank cannot be reached there any more."""

    def on_bad_client(self, pid: int, reason: str) -> None:
        """A connection was refused or ended: wrong user, foreign process, malformed or too large frame."""


class BlockLine(Protocol):
    """The way to a rank's re-executable block."""

    def order(self, handle: WorkerHandle, order: BlockOrder) -> bool:
        """Send an order; False when the rank has no connection for it."""

    def reassign(self, old: WorkerHandle, new: WorkerHandle) -> None:
        """The process behind the connections is in another generation now."""


# ----------------------------------------------------------------------------------- end of the workers' block
