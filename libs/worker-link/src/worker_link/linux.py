"""The three prctl calls that tie a worker's life to its parent's, through ctypes: the standard library has none."""

from __future__ import annotations

import ctypes
import os
import signal

STACK_DUMP_SIGNAL = signal.SIGRTMIN + 12
"""Dumps all threads' stacks into the rank's stacks file. A real-time signal, because Slurm and user scripts use
SIGUSR1 and SIGUSR2 for pre-emption; glibc keeps the first two real-time signals for itself."""

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent_pid: int, number: signal.Signals) -> bool:
    """Ask the kernel for a signal when the parent's thread that started this process ends.

    Returns:
        False when the parent is gone already, so that the caller can end itself; the request came too late then.

    Raises:
        OSError: the kernel refused.
    """
    _prctl(_PR_SET_PDEATHSIG, int(number))
    return os.getppid() == parent_pid


def become_subreaper() -> None:
    """Orphaned descendants of this process become its children, so a daemonised one is not lost.

    Raises:
        OSError: the kernel refused.
    """
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def name_process(name: str) -> None:
    """Set the name that `ps -o comm` and `top` show; at most 15 bytes are kept by the kernel.

    Raises:
        OSError: the kernel refused.
    """
    _prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]))


def _prctl(option: int, argument: int | ctypes.c_char_p) -> None:
    value = ctypes.c_ulong(argument) if isinstance(argument, int) else argument
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")
