"""The launcher's options as values, and the reading of torchrun's little languages (2:3, gpu, 0:1,1:3)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import Signals

from fault_contracts.agent import JobSpec
from fault_contracts.subjects import TOKEN_BYTES_MAX
from node_agent.adapters.checkpoint_options import CheckpointOptions
from node_agent.adapters.grace_options import GraceOptions
from node_agent.adapters.status_options import StatusOptions
from node_agent.application.ports import ProgramKind, TerminalCopy
from node_agent.domain.hang_policies import DetectionPolicy
from node_agent.domain.std_routes import Std, StdRoutes, parse_std_routes, terminal_streams

NNODES_MAX = 100_000
NPROC_MAX = 1_024
"""Limits of fault_contracts.agent.JobSpec."""

NO_STREAMS = StdRoutes()
NO_CHECKPOINTS = CheckpointOptions()
USUAL_GRACE = GraceOptions()
STATUS_DEFAULT = StatusOptions()


class BadOption(ValueError):
    """A value that cannot be used; the message names the flag and says what would do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOptions:
    """What `phalanx run` was asked for.

    Attributes:
        job_id: empty when the user named none.
        endpoint: rendezvous endpoint of a job over several machines, HOST or HOST:PORT; empty when none was given.
        nats_url: empty: NATS_URL, else an embedded server.
        data_dir: where embedded servers, outbox and journal keep their files.
        log_dir: None: `logs` in data_dir.
        log_rules: rule files; none: the output is not watched.
        notes: one sentence for each torchrun flag that was accepted and has no effect here.
    """

    spec: JobSpec
    kind: ProgramKind
    program: str
    args: tuple[str, ...]
    job_id: str = ""
    node_id: str = ""
    node_rank: int | None = None
    node_labels: Mapping[str, str] = field(default_factory=dict)
    role: str = "default"
    virtual_local_rank: bool = False
    endpoint: str = ""
    nats_url: str = ""
    cluster: str = ""
    local_addr: str = ""
    data_dir: Path = Path(".phalanx")
    log_dir: Path | None = None
    redirects: StdRoutes = NO_STREAMS
    tee: StdRoutes = NO_STREAMS
    local_ranks_shown: frozenset[int] | None = None
    signals: tuple[Signals, ...] = (Signals.SIGTERM, Signals.SIGINT, Signals.SIGHUP, Signals.SIGQUIT)
    shutdown_timeout_s: float = 30.0
    grace: GraceOptions = USUAL_GRACE
    standby: bool = True
    preload: tuple[str, ...] = ()
    checkpoints: CheckpointOptions = NO_CHECKPOINTS
    log_rules: tuple[Path, ...] = ()
    status: StatusOptions = STATUS_DEFAULT
    notes: tuple[str, ...] = ()
    detection: DetectionPolicy = field(default_factory=DetectionPolicy)

    def terminal(self, local_rank: int) -> TerminalCopy:
        """What the terminal shows of a rank: everything, unless redirected (and not teed) or filtered out."""
        if self.local_ranks_shown is not None and local_rank not in self.local_ranks_shown:
            return TerminalCopy(stdout=False, stderr=False)
        shown = terminal_streams(local_rank, redirects=self.redirects, tee=self.tee)
        return TerminalCopy(stdout=Std.OUT in shown, stderr=Std.ERR in shown)


def read_nnodes(text: str) -> tuple[int, int]:
    """`2` or `2:3`: nodes that train, and spares.

    Raises:
        BadOption: anything else.
    """
    found = re.fullmatch(r"(\d{1,6})(?::(\d{1,6}))?", text.strip())
    if found is None:
        raise BadOption(f"--nnodes {text!r}: give a number (2) or a range (2:3)")
    least = int(found.group(1))
    most = int(found.group(2) or least)
    if not 1 <= least <= most <= NNODES_MAX:
        raise BadOption(f"--nnodes {text!r}: needs 1 <= minimum <= maximum <= {NNODES_MAX}")
    return least, most - least


def read_nproc(text: str, environ: Mapping[str, str]) -> int:
    """A number, or auto, cpu, gpu.

    Raises:
        BadOption: anything else, or gpu without a GPU.
    """
    word = text.strip().lower()
    if word.isdecimal():
        count = int(word)
    elif word == "cpu":
        count = _cpus()
    elif word == "gpu":
        count = visible_gpus(environ)
        if count == 0:
            raise BadOption("--nproc-per-node gpu: this machine shows no NVIDIA GPU")
    elif word == "auto":
        count = visible_gpus(environ) or _cpus()
    else:
        raise BadOption(f"--nproc-per-node {text!r}: give a number, auto, cpu or gpu")
    if not 1 <= count <= NPROC_MAX:
        raise BadOption(f"--nproc-per-node {text!r}: needs 1 to {NPROC_MAX} workers")
    return count


def visible_gpus(environ: Mapping[str, str], proc: Path = Path("/proc/driver/nvidia/gpus")) -> int:
    """NVIDIA GPUs that workers would see, without asking the driver: a CUDA context costs seconds and memory."""
    chosen = environ.get("CUDA_VISIBLE_DEVICES")
    try:
        present = len(list(proc.iterdir()))
    except OSError:
        return 0
    if chosen is None:
        return present
    names = [name.strip() for name in chosen.split(",")]
    return min(present, len([name for name in names if name and name != "-1"]))


def _cpus() -> int:
    return len(os.sched_getaffinity(0))


def read_name(flag: str, text: str) -> str:
    """A name that goes into subjects, folders and messages; empty is not given.

    Raises:
        BadOption: too long, or with characters that a terminal would act on.
    """
    if not text.isprintable():
        raise BadOption(f"{flag} {text!r}: a name has printable characters only")
    if len(text.encode()) > TOKEN_BYTES_MAX:
        raise BadOption(f"{flag} {text[:20]!r}...: a name takes at most {TOKEN_BYTES_MAX} bytes")
    return text


def read_streams(flag: str, text: str) -> StdRoutes:
    """Read torchrun's `3` or `0:1,1:3`.

    Raises:
        BadOption: anything else.
    """
    try:
        return parse_std_routes(text)
    except ValueError as error:
        raise BadOption(f"{flag}: {error}") from error


def read_local_ranks(text: str) -> frozenset[int] | None:
    """`0,2`; empty shows all.

    Raises:
        BadOption: anything else.
    """
    if not text.strip():
        return None
    if not all(re.fullmatch(r"\d{1,4}", piece.strip()) for piece in text.split(",")):
        raise BadOption(f"--local-ranks-filter {text!r}: give local ranks such as 0,2")
    return frozenset(int(rank) for rank in text.split(","))


def read_paths(given: Sequence[str] | None, variable: str) -> tuple[Path, ...]:
    """Paths from a repeatable flag; without it from a variable, separated by colons as in PATH."""
    texts = given if given is not None else variable.split(os.pathsep)
    return tuple(dict.fromkeys(Path(text) for text in texts if text))


def read_signals(text: str, *, flag: str = "--signals-to-handle") -> tuple[Signals, ...]:
    """`SIGTERM,SIGUSR1`.

    Raises:
        BadOption: an unknown name, or one that no process can handle.
    """
    chosen = []
    for name in filter(None, (part.strip().upper() for part in text.split(","))):
        if name not in Signals.__members__ or name in ("SIGKILL", "SIGSTOP", "SIGCHLD"):
            raise BadOption(f"{flag}: {name!r} is not a signal that can be handled")
        chosen.append(Signals[name])
    if not chosen:
        raise BadOption(f"{flag}: name at least one signal, or the job could not be stopped in order")
    return tuple(dict.fromkeys(chosen))
