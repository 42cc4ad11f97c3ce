"""Plain start of a worker: a fresh interpreter through worker_link.bootstrap, or any executable through the exec guard.

Slower than the nursery by the interpreter's start and the imports; used with --no-standby and when the nursery fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import worker_link.exec_guard
from node_agent.adapters.nursery import ExitStatus
from node_agent.application.ports import ProgramKind, WorkerSpec, WorkerStartError
from worker_link.bootstrap import STUB

_GUARD = str(Path(worker_link.exec_guard.__file__))


def command_of(spec: WorkerSpec, *, python: str, stacks_fd: int) -> list[str]:
    """Argument list that runs the program with a parent-death signal set."""
    parent = str(os.getpid())
    match spec.kind:
        case ProgramKind.EXECUTABLE:
            return [sys.executable, "-I", "-S", _GUARD, parent, spec.program, *spec.args]
        case ProgramKind.SCRIPT:
            how = []
        case ProgramKind.MODULE:
            how = ["-m"]
    stub = STUB.format(module="bootstrap")
    options = ["--parent-pid", parent, "--stacks-fd", str(stacks_fd)]
    return [python, "-c", stub, *options, *how, "--", spec.program, *spec.args]


def spawn_worker(
    spec: WorkerSpec, env: Mapping[str, str], *, python: str, stdout_fd: int, stderr_fd: int, stacks_fd: int
) -> subprocess.Popen[bytes]:
    """Start it in its own session; the caller waits for its pid itself (wait4 gives memory use, Popen does not).

    Raises:
        WorkerStartError: interpreter missing, folder missing, out of processes.
    """
    try:
        return subprocess.Popen(
            command_of(spec, python=python, stacks_fd=stacks_fd),
            env=dict(env),
            cwd=spec.cwd,
            stdin=subprocess.DEVNULL,
            stdout=stdout_fd,
            stderr=stderr_fd,
            pass_fds=[] if spec.kind is ProgramKind.EXECUTABLE else [stacks_fd],
            start_new_session=True,
        )
    except OSError as error:
        raise WorkerStartError(f"rank {spec.rank} cannot be started: {error.strerror} ({error.filename})") from error


def reap(popen: subprocess.Popen[bytes]) -> ExitStatus:
    """Status of a dead child of ours, with its memory use."""
    try:
        _, status, usage = os.wait4(popen.pid, 0)
    except ChildProcessError:  # somebody else waited for it: its status is lost
        popen.returncode = 0
        return ExitStatus()
    popen.returncode = os.waitstatus_to_exitcode(status)  # so that Popen does not warn and does not wait again
    return ExitStatus(
        exit_code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        core_dumped=os.WCOREDUMP(status),
        max_rss_bytes=usage.ru_maxrss * 1024,
    )
