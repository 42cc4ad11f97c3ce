"""Start of a spawned worker: `python -c STUB options program args`, with what the nursery would have given it.

The same promises as a forked worker: dies with its parent, dumps stacks on the signal, writes the error file.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import sys
from typing import IO, NoReturn

from worker_link.linux import STACK_DUMP_SIGNAL, die_with_parent
from worker_link.program import run_program

STUB = "import sys; sys.path[0] == '' and sys.path.pop(0); from worker_link.{module} import main; main()"
"""`-m` would leave the current folder on sys.path and shadow modules while we start; the stub takes it off first."""

_kept_open: list[IO[bytes]] = []
"""faulthandler keeps the descriptor only; the file object has to stay alive."""


def register_stack_dumps(fd: int) -> None:
    """Crash tracebacks go to stderr, stack dumps on STACK_DUMP_SIGNAL to this open descriptor."""
    faulthandler.enable(all_threads=True)
    file = os.fdopen(fd, "ab", buffering=0)
    _kept_open.append(file)
    faulthandler.register(STACK_DUMP_SIGNAL, file=file, all_threads=True, chain=False)


def main() -> NoReturn:
    """Entry point; never returns."""
    parser = argparse.ArgumentParser(prog="worker_link.bootstrap")
    parser.add_argument("--parent-pid", type=int)
    parser.add_argument("--stacks-fd", type=int)
    parser.add_argument("-m", dest="module", action="store_true")
    parser.add_argument("program")
    parser.add_argument("args", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    if options.parent_pid is not None and not die_with_parent(options.parent_pid, signal.SIGKILL):
        sys.exit("the agent ended before this worker had started")
    if options.stacks_fd is not None:
        register_stack_dumps(options.stacks_fd)
    run_program("module" if options.module else "script", options.program, options.args)


if __name__ == "__main__":
    main()
