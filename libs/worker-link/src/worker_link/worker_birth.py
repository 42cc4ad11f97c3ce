"""What a freshly forked child does to become a worker: session, stdio, environment, signals, then the user's program.

Runs in the child only. Nothing here may raise past `become_worker`: an unprepared child must never go on as a nursery.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from worker_link.bootstrap import register_stack_dumps
from worker_link.linux import die_with_parent, name_process
from worker_link.program import run_program
from worker_link.store_wait import wait_for_store

EXIT_NOT_STARTED = 127
"""As a shell: the program could not be run at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """One order to fork, as the child needs it. The four descriptors are owned by the order."""

    kind: str
    program: str
    args: list[str]
    env: Mapping[str, str]
    cwd: str
    name: str
    stdin_fd: int
    stdout_fd: int
    stderr_fd: int
    stacks_fd: int
    nursery_pid: int
    nursery_fds: tuple[int, ...]


def become_worker(birth: Birth) -> NoReturn:
    """Prepare this process and run the program; leaves by SystemExit through the interpreter's normal end."""
    try:
        _prepare(birth)
    except OSError as error:
        # stderr may or may not be the worker's by now; either way a person or the agent reads it.
        os.write(2, f"worker could not be prepared: {error}\n".encode())
        os._exit(EXIT_NOT_STARTED)
    if birth.kind == "executable":
        _become_executable(birth)
    register_stack_dumps(birth.stacks_fd)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    wait_for_store(birth.env)
    run_program(birth.kind, birth.program, birth.args)


def _prepare(birth: Birth) -> None:
    if os.getsid(0) != os.getpid():  # a child that stood by leads its session already
        os.setsid()
    if not die_with_parent(birth.nursery_pid, signal.SIGKILL):
        os._exit(EXIT_NOT_STARTED)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for target, fd in enumerate((birth.stdin_fd, birth.stdout_fd, birth.stderr_fd)):
        os.dup2(fd, target)
    # Only what the nursery opened is closed: a descriptor that an imported module opened is that module's.
    for fd in (birth.stdin_fd, birth.stdout_fd, birth.stderr_fd, *birth.nursery_fds):
        os.close(fd)
    os.chdir(birth.cwd)
    _replace_environment(birth.env)
    _reopen_streams()
    _reseed()
    name_process(birth.name)


def _become_executable(birth: Birth) -> NoReturn:
    os.close(birth.stacks_fd)
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # ignored signals would stay ignored over exec
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        os.execvpe(birth.program, [birth.program, *birth.args], dict(birth.env))  # noqa: S606  no shell is wanted
    except OSError as error:
        os.write(2, f"cannot run {birth.program!r}: {error.strerror}\n".encode())
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _replace_environment(env: Mapping[str, str]) -> None:
    old_path, old_zone = os.environ.get("PYTHONPATH", ""), os.environ.get("TZ")
    os.environ.clear()
    os.environ.update(env)
    if os.environ.get("TZ") != old_zone:
        time.tzset()
    new_path = env.get("PYTHONPATH", "")
    if new_path != old_path:  # the interpreter read it once, at the nursery's start
        sys.path[:0] = [entry for entry in new_path.split(os.pathsep) if entry and entry not in sys.path]


def _reopen_streams() -> None:
    """The nursery's text streams were made for the nursery's descriptors; buffering has to fit the worker's."""
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdin = sys.__stdin__ = open(0, encoding=sys.stdin.encoding, closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _text_stream(1, sys.stdout, unbuffered=unbuffered, by_line=os.isatty(1))  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _text_stream(2, sys.stderr, unbuffered=unbuffered, by_line=True)  # type: ignore[misc]


def _text_stream(fd: int, like: io.TextIOBase | object, *, unbuffered: bool, by_line: bool) -> io.TextIOWrapper:
    binary = open(fd, "wb", buffering=0 if unbuffered else -1, closefd=False)  # noqa: SIM115
    return io.TextIOWrapper(
        binary,
        encoding=getattr(like, "encoding", None) or "utf-8",
        errors=getattr(like, "errors", None) or "backslashreplace",
        line_buffering=by_line,
        write_through=unbuffered,
    )


def _reseed() -> None:
    # `random` reseeds itself after fork; numpy's global generator was seeded once at import and would be shared.
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is not None:
        numpy_random.seed()
