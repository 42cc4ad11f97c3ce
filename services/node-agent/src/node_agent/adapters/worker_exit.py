"""What is known of a worker that has just ended, from its status, its files and the kernel's log, as one value."""

from __future__ import annotations

import signal
from datetime import datetime

from node_agent.adapters.error_file import read_worker_error
from node_agent.adapters.nursery import ExitStatus
from node_agent.adapters.oom_evidence import OomEvidence, OomVerdict
from node_agent.adapters.worker_record import WorkerRecord
from node_agent.application.ports import OomKill, WorkerExit


def exit_of(
    record: WorkerRecord, oom_evidence: OomEvidence, *, ended_monotonic_s: float, exited_at: datetime, reason: str
) -> WorkerExit:
    """The end of a worker whose output was drained; `reason` says why its status is unknown."""
    status = record.status if record.status is not None else ExitStatus()
    tail = record.output.stderr.tail()
    # No exception ends a process by SIGKILL: a traceback above it was of something that the script had caught.
    traceback_lines = () if status.signal == signal.SIGKILL else tail
    oom = oom_evidence.judge(record.handle.pid) if status.signal == signal.SIGKILL else _no_oom(status)
    return WorkerExit(
        handle=record.handle,
        exit_code=status.exit_code,
        signal=status.signal,
        core_dumped=status.core_dumped,
        requested=record.stopping,
        oom_kill=oom.oom_kill,
        oom_evidence=oom.evidence,
        ran_s=ended_monotonic_s - record.started_monotonic_s,
        max_rss_bytes=status.max_rss_bytes,
        exited_at=exited_at,
        error=None if status.exit_code == 0 else read_worker_error(record.spec.files.error, traceback_lines),
        stderr_tail=tail,
        status_reason=reason,
    )


def _no_oom(status: ExitStatus) -> OomVerdict:
    if status.signal is None and status.exit_code is None:
        return OomVerdict(oom_kill=OomKill.UNKNOWN)
    return OomVerdict(oom_kill=OomKill.NO)
