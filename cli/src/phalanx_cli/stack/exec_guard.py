"""Shim between fork and exec: ties a child to the life of its parent, then becomes the child.

Run as a file (`python -I -S exec_guard.py PARENT_PID PROGRAM ARGS...`), so that it starts in about 25 ms and needs
nothing but the standard library. It stands here instead of `preexec_fn` because that one runs Python between fork and
exec, which can deadlock in a parent with threads (docs.python.org, subprocess, note on preexec_fn).

PR_SET_PDEATHSIG (prctl(2)) is cleared by fork and kept by exec of an ordinary program. It fires when the *thread* that
forked ends, so a stack is started from a thread that lives as long as the stack, normally the main one.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
"""From linux/prctl.h."""

EXIT_ORPHANED = 113
"""The parent was gone before the tie was made."""

EXIT_NOT_EXECUTABLE = 126
"""The program exists and cannot be run; as in POSIX shells, like 127 for one that is not found."""

EXIT_NOT_FOUND = 127


def tie_to_parent(parent_pid: int) -> bool:
    """Ask for SIGKILL at the parent's death; return false when the parent is dead already.

    SIGKILL and not SIGTERM: nobody is left who could insist. Everything that Phalanx runs survives kill -9 anyway.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        errno = ctypes.get_errno()
        raise OSError(errno, f"prctl(PR_SET_PDEATHSIG): {os.strerror(errno)}")
    return os.getppid() == parent_pid


def main() -> int:
    """Tie, clean the inherited signal state and exec; returns only on failure."""
    parent_pid, program, arguments = int(sys.argv[1]), sys.argv[2], sys.argv[2:]
    if not tie_to_parent(parent_pid):
        return EXIT_ORPHANED
    # A parent started in the background or with blocked signals would hand that down, and SIGTERM would do nothing.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    try:
        os.execv(program, arguments)  # noqa: S606 - no shell is wanted here
    except FileNotFoundError as error:
        sys.stderr.write(f"{program}: {error.strerror}\n")
        return EXIT_NOT_FOUND
    except OSError as error:
        sys.stderr.write(f"{program}: {error.strerror}\n")
        return EXIT_NOT_EXECUTABLE


if __name__ == "__main__":
    sys.exit(main())
