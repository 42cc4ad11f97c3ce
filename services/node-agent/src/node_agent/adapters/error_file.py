"""The exception of a worker: from its TORCHELASTIC_ERROR_FILE, or from the traceback at the end of its stderr."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from node_agent.application.ports import WorkerError
from node_agent.domain.python_traceback import Frame, fingerprint, parse_last_traceback

ERROR_FILE_BYTES_MAX = 256 * 1024
MESSAGE_LENGTH_MAX = 4 * 1024
"""What travels in an event; the whole text stays in the file."""


def read_worker_error(error_file: Path, stderr_lines: Sequence[str]) -> WorkerError | None:
    """What is known of the exception; None when the worker left no trace of one."""
    try:
        with error_file.open("rb") as file:
            data = file.read(ERROR_FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return _from_stderr(stderr_lines)
    except OSError as error:
        return _malformed(f"{error_file}: {error.strerror}", stderr_lines)
    if len(data) > ERROR_FILE_BYTES_MAX:
        return _malformed(f"{error_file} is larger than {ERROR_FILE_BYTES_MAX} bytes", stderr_lines)
    try:
        record = json.loads(data)
        return _from_record(record)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        return _malformed(f"{error_file} is not an error record: {error}", stderr_lines)


def _from_record(record: object) -> WorkerError:
    if not isinstance(record, dict):
        raise TypeError(f"a JSON {type(record).__name__}")
    body = record["message"]
    if isinstance(body, str):  # the older layout: the text alone
        return _error("error_file", *_split(body), frames=())
    if not isinstance(body, dict):
        raise TypeError(f"message is a JSON {type(body).__name__}")
    text = body["message"]
    extra = body.get("extraInfo", {})
    if not isinstance(text, str) or not isinstance(extra, dict):
        raise TypeError("message or extraInfo has the wrong type")
    name, message = _split(text)
    callstack = extra.get("py_callstack")
    parsed = parse_last_traceback(callstack.splitlines()) if isinstance(callstack, str) else None
    return _error("error_file", name, message, frames=parsed.frames if parsed is not None else (), at=_time_of(extra))


def _time_of(extra: dict[str, object]) -> datetime | None:
    try:
        return datetime.fromtimestamp(float(str(extra["timestamp"])), UTC)
    except (KeyError, ValueError, OverflowError, OSError):  # a missing or absurd time is no time
        return None


def _split(text: str) -> tuple[str, str]:
    name, colon, message = text.partition(":")
    if colon and name.replace(".", "_").isidentifier():
        return name.rpartition(".")[2], message.strip()
    return "", text


def _from_stderr(lines: Sequence[str]) -> WorkerError | None:
    parsed = parse_last_traceback(lines)
    if parsed is None:
        return None
    return _error("stderr", parsed.type, parsed.message, frames=parsed.frames)


def _malformed(reason: str, lines: Sequence[str]) -> WorkerError:
    found = _from_stderr(lines)
    if found is None:
        return WorkerError(source="malformed_error_file", type="", message=reason)
    return _error("malformed_error_file", found.type, f"{found.message} [{reason}]", frames=(), like=found)


def _error(
    source: str,
    name: str,
    message: str,
    *,
    frames: Sequence[Frame],
    at: datetime | None = None,
    like: WorkerError | None = None,
) -> WorkerError:
    return WorkerError(
        source=source,
        type=name,
        message=message[:MESSAGE_LENGTH_MAX],
        frames=like.frames if like is not None else tuple(str(frame) for frame in frames),
        fingerprint=like.fingerprint if like is not None else fingerprint(name, message, frames),
        at=at,
    )
