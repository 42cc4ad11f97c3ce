"""Ties an arbitrary executable to its parent: `python -I -S exec_guard.py PARENT_PID program args`.

Stands alone (no import from its own package) so that it starts without site and in 15 ms; the request outlives exec.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Set the parent-death signal, check that the parent is still there, become the program."""
    parent_pid, program = int(sys.argv[1]), sys.argv[2]
    if ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        sys.exit("the kernel refused PR_SET_PDEATHSIG")
    if os.getppid() != parent_pid:
        sys.exit("the agent ended before this worker had started")
    try:
        os.execvp(program, sys.argv[2:])  # noqa: S606  no shell is wanted
    except OSError as error:
        sys.stderr.write(f"cannot run {program!r}: {error.strerror}\n")
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


if __name__ == "__main__":
    main()
