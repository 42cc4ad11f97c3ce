"""Levels of recovery, which a policy names and a plan decides."""

from __future__ import annotations

from enum import StrEnum


class RecoveryLevel(StrEnum):
    """Recovery of a job, from light to heavy. Closed."""

    IN_PROCESS = "in_process"
    PROCESS = "process"
    JOB = "job"
    FAILED = "failed"
