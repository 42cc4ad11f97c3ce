"""A worker's exception: read from text, and within the limits of the message that reports it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from fault_contracts.agent import WorkerError as ReportedError
from node_agent.application.ports import WorkerError
from node_agent.domain.python_traceback import fingerprint, parse_last_traceback

_NAME_MAX = 256
_FRAMES_MAX = 64
_MESSAGE_MAX = 8_192


def error_of_text(source: str, type_: str, message: str, callstack: str, *, at: datetime | None) -> WorkerError:
    """An exception whose traceback was written down; the same fingerprint as from an error file."""
    lines: Sequence[str] = callstack.splitlines()
    parsed = parse_last_traceback(lines) if lines else None
    frames = parsed.frames if parsed is not None else ()
    return WorkerError(
        source=source,
        type=type_,
        message=message,
        frames=tuple(str(frame) for frame in frames),
        fingerprint=fingerprint(type_, message, frames),
        at=at,
    )


def reported_error(error: WorkerError) -> ReportedError:
    """A worker's exception within the limits of the message."""
    return ReportedError(
        type=error.type[:_NAME_MAX] or "unknown",
        message=error.message[:_MESSAGE_MAX],
        fingerprint=error.fingerprint[:_NAME_MAX] or "unknown",
        frames=error.frames[-_FRAMES_MAX:],
        raised_at=error.at,
        source=error.source,
    )
