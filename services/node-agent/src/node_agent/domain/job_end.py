"""What the end of a job means for the person who started it: the exit code, and in words whose fault it was."""

from __future__ import annotations

from enum import IntEnum
from typing import assert_never

from fault_contracts.recovery import JobOutcome


class ExitCode(IntEnum):
    """Exit codes of `phalanx run`. From 64 on: sysexits.h; a signal is 128 plus its number, as in shells."""

    OK = 0
    JOB_FAILED = 1
    USAGE = 2
    BUS_UNAVAILABLE = 69
    INTERNAL = 70
    CANNOT_CREATE = 73
    NO_CAPACITY = 75
    """EX_TEMPFAIL: the same command may work later."""
    BAD_SETTINGS = 78
    CANCELLED = 130


def exit_code_of(outcome: JobOutcome) -> ExitCode:
    """The exit code for an outcome that the planner announced."""
    match outcome:
        case JobOutcome.SUCCEEDED:
            return ExitCode.OK
        case JobOutcome.FAILED_USER | JobOutcome.FAILED_BUDGET:
            return ExitCode.JOB_FAILED
        case JobOutcome.FAILED_NO_CAPACITY:
            return ExitCode.NO_CAPACITY
        case JobOutcome.CANCELLED:
            return ExitCode.CANCELLED
        case _:
            assert_never(outcome)


def headline(outcome: JobOutcome) -> str:
    """One line for the terminal."""
    match outcome:
        case JobOutcome.SUCCEEDED:
            return "job succeeded"
        case JobOutcome.FAILED_USER:
            return "job failed: the fault is in the training script, and another restart would not help"
        case JobOutcome.FAILED_BUDGET:
            return "job failed: the restart budget is used up"
        case JobOutcome.FAILED_NO_CAPACITY:
            return "job failed: there are not enough nodes"
        case JobOutcome.CANCELLED:
            return "job cancelled"
        case _:
            assert_never(outcome)
