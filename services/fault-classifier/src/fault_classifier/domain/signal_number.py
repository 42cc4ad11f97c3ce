"""Signal numbers of Linux, as agents report them. The reader's own machine is not asked: it may have others.

Source: signal(7), "Signal numbering for standard signals", the column for x86, ARM and most others.
"""

from __future__ import annotations

from enum import IntEnum


class SignalNumber(IntEnum):
    """Those that the rules or the sentences name."""

    SIGHUP = 1
    SIGINT = 2
    SIGQUIT = 3
    SIGILL = 4
    SIGTRAP = 5
    SIGABRT = 6
    SIGBUS = 7
    SIGFPE = 8
    SIGKILL = 9
    SIGUSR1 = 10
    SIGSEGV = 11
    SIGUSR2 = 12
    SIGPIPE = 13
    SIGALRM = 14
    SIGTERM = 15
    SIGXCPU = 24
    SIGXFSZ = 25
    SIGSYS = 31


_NAMES = {member.value: member.name for member in SignalNumber}


def signal_name(number: int) -> str:
    """SIGKILL for 9; the number where it has no name here (real-time signals)."""
    return _NAMES.get(number, f"signal {number}")
